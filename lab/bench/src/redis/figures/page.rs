//! The figures for people: a page of tables, measured beside published.

use std::fmt::Write;

use super::exhibit::Setting;
use super::{Measured, RedisFiguresArgs};
use crate::spread::Spread;
use quorate_tooling::tables::wrapped;
use quorate_tooling::units::{show_count, show_ns};

/// The whole page.
pub(super) fn render(args: &RedisFiguresArgs, figures: &[Measured]) -> String {
    let mut page = String::new();
    write(&mut page, args, figures).expect("a String takes all that is written to it");
    page
}

fn write(page: &mut String, args: &RedisFiguresArgs, figures: &[Measured]) -> std::fmt::Result {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let intro = format!(
        "`quorate-lab bench redis-figures` prints this page: what the papers of Rabia and Nezha show, measured on one \
         machine with {cores} cores for servers and clients together. Medians of {} turns of {} [least-most]; ratios \
         within each turn; a dash where a paper has no number. The papers had other machines: compare ratios.",
        args.turns,
        show_ns(args.duration.as_nanos() as u64),
    );
    writeln!(
        page,
        "# Figures of Redis behind protocols\n\n{}",
        wrapped(&intro)
    )?;
    for figure in figures {
        let exhibit = &figure.exhibit;
        writeln!(
            page,
            "\n## {}\n\n{}",
            exhibit.title,
            wrapped(exhibit.caption)
        )?;
        if args.plots.is_some() {
            let file = exhibit.file;
            writeln!(page, "\n![Measured, beside what is published]({file})")?;
        }
        for (number, setting) in exhibit.settings.iter().enumerate() {
            rates(page, figure, (number, setting))?;
            claims(page, figure, (number, setting))?;
        }
    }
    Ok(())
}

/// The operations a second of each system.
fn rates(
    page: &mut String,
    figure: &Measured,
    (number, setting): (usize, &Setting),
) -> std::fmt::Result {
    writeln!(
        page,
        "\n### {}\n\n\
         | in the paper | here | operations/s | p50 | p99 | CPU us of all servers | published operations/s |\n\
         |---|---|--:|--:|--:|--:|--:|",
        setting.title
    )?;
    for bar in figure.exhibit.bars {
        let spread = |value: &dyn Fn(&super::Run) -> f64| {
            Spread::of(figure.runs_of(number, bar.system).map(value))
        };
        let published = setting.published_of(bar.system);
        writeln!(
            page,
            "| {} | `{}` | {} | {} | {} | {} | {} |",
            bar.name,
            bar.system,
            spread(&|run| run.per_second).show_by(show_count),
            show_ns(spread(&|run| run.latency.p50_ns as f64).middle as u64),
            show_ns(spread(&|run| run.latency.p99_ns as f64).middle as u64),
            spread(&|run| run.server_cpu_us).show(1),
            published.map_or("-".to_owned(), show_count),
        )?;
    }
    Ok(())
}

/// The ratios that the paper claims.
fn claims(
    page: &mut String,
    figure: &Measured,
    (number, setting): (usize, &Setting),
) -> std::fmt::Result {
    writeln!(page, "\n| ratio | here | published |\n|---|--:|--:|")?;
    for claim in setting.claims {
        let ratios = figure.ratios(number, claim.of, claim.over);
        writeln!(
            page,
            "| `{}` / `{}` | {} | {} |",
            claim.of,
            claim.over,
            Spread::of(ratios.into_iter()).show(2),
            claim.ratio,
        )?;
    }
    Ok(())
}
