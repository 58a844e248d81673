// Puts in batches through the package etcd3; ../README.md says what is read and printed.
'use strict';

const { Etcd3 } = require('etcd3');
const readline = require('readline');
const { setTimeout: sleep } = require('timers/promises');

const client = new Etcd3({ hosts: process.argv[2].split(',') });

// Puts `count` keys, each at a moment of its own, and counts how the calls ended.
async function batch(prefix, count, spreadMs, leastMs, mostMs) {
  const outcomes = new Map();
  const puts = Array.from({ length: count }, async (_, number) => {
    let outcome = 'ok';
    await sleep(Math.random() * spreadMs);
    try {
      const ms = leastMs + Math.random() * (mostMs - leastMs);
      await client.put(`${prefix}${number}`).value('v').options({ deadline: Date.now() + ms });
    } catch (error) {
      outcome = `${error.constructor.name} ${error.message}`.replaceAll('\n', ' ');
      // Some tell how long each step took, so that no two are alike.
      outcome = outcome.replace(/Deadline exceeded after.*/, 'Deadline exceeded');
    }
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
  });
  await Promise.all(puts);
  return outcomes;
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [prefix, ...numbers] = line.split(' ');
    for (const [outcome, times] of await batch(prefix, ...numbers.map(Number))) {
      console.log(`${times}\t${outcome}`);
    }
    console.log();
  }
  client.close();
}

main();
