//! The machine, and what it has put out and nobody performed yet.

use quorate_core::{Input, Lsn, Machine, Now, Out, Output, Past};

/// The machine of the present epoch.
pub(crate) struct Engine<M: Machine> {
    /// `None` while slots are missing that it knew to be decided, and between two epochs.
    machine: Option<M>,
    out: Out<M>,
    /// An empty list, kept for its memory.
    output_buffer: Vec<Output<M>>,
    /// Whether the machine's lemmas are asserted after every step.
    check_steps: bool,
}

impl<M: Machine> Engine<M> {
    /// Without a machine.
    pub(crate) fn new(check_steps: bool) -> Self {
        Engine {
            machine: None,
            out: Out::default(),
            output_buffer: Vec::new(),
            check_steps,
        }
    }

    pub(crate) fn machine(&self) -> Option<&M> {
        self.machine.as_ref()
    }

    /// Whether the machine orders commands.
    pub(crate) fn is_serving(&self) -> bool {
        self.machine.as_ref().is_some_and(M::is_serving)
    }

    /// How many commands the machine takes.
    pub(crate) fn room(&self) -> usize {
        self.machine.as_ref().map_or(0, M::room)
    }

    /// Starts the machine.
    pub(crate) fn start(&mut self, config: &M::Config, past: Past<M>, now: Now) {
        self.machine = Some(M::recover(config, past, now, &mut self.out));
    }

    /// The machine's part is done: it hears nothing any more, and what it put out is void.
    pub(crate) fn stop(&mut self) {
        self.machine = None;
        self.forget_outputs();
    }

    /// What the machine put out is void.
    pub(crate) fn forget_outputs(&mut self) {
        self.out = Out::default();
    }

    /// Gives the machine an input. Before it starts it hears nothing: loss is normal.
    pub(crate) fn step(&mut self, now: Now, input: Input<M>) {
        let Some(machine) = &mut self.machine else {
            return;
        };
        machine.step(now, input, &mut self.out);
        if self.check_steps {
            machine.check();
        }
    }

    /// The last record that the machine has had persisted.
    pub(crate) fn persisted(&self) -> Lsn {
        self.out.persisted()
    }

    /// Takes what the machine has put out; to be handed back by [`Engine::give_back`].
    pub(crate) fn take_outputs(&mut self) -> Vec<Output<M>> {
        let mut outputs = std::mem::take(&mut self.output_buffer);
        self.out.swap(&mut outputs);
        outputs
    }

    /// Gets back the list that was taken, empty.
    pub(crate) fn give_back(&mut self, outputs: Vec<Output<M>>) {
        self.output_buffer = outputs;
    }
}
