// ioredis: counters by single requests, pipelines and transactions. Arguments: three ports. Each client counts until
// standard input ends; then no counter may be less than what was acknowledged, nor more than the library sent again.
import Redis from 'ioredis';
import {noMoreWork, pause, report} from './report.mjs';

const ports = process.argv.slice(2).map(Number);
let more = true, breaks = 0;
noMoreWork.then(() => more = false);

// One way to count: `once` adds one to every one of its keys, and is told a name of its own for each time.
const ways = {
  single: {keys: ['single'], once: client => client.incr('single')},
  pipeline: {
    keys: Array.from({length: 10}, (_, i) => `piped-${i}`),
    once: async client => {
      const calls = client.pipeline();
      for (const key of ways.pipeline.keys) calls.incr(key);
      for (const [error] of await calls.exec()) if (error) throw error;
    },
  },
  transaction: {
    keys: ['multi-a', 'multi-b'],
    once: async client => {
      const replies = await client.multi().incr('multi-a').incr('multi-b').exec();
      for (const [error] of replies) if (error) throw error;
      if (replies[0][1] !== replies[1][1]) throw new Error(`torn: ${JSON.stringify(replies)}`);
    },
  },
};

// Counts in one way until no more work is wanted. With `resends` off a request under way fails with its connection.
async function count(way, port, resends) {
  const options = {host: '127.0.0.1', port, db: 2, keyPrefix: resends ? 'resent-' : 'once-'};
  const once = {autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0, enableOfflineQueue: false};
  const client = new Redis({...options, ...(resends ? {maxRetriesPerRequest: null} : once)});
  const seen = {acknowledged: 0, unknown: 0, torn: 0, breaks: 0, refused: 0};
  let asking = false;
  client.on('error', () => {});
  client.on('close', () => {
    breaks++;
    if (asking) seen.breaks++;
  });
  await new Promise(resolve => client.once('ready', resolve));
  while (more) {
    asking = true;
    await way.once(client).then(() => seen.acknowledged++, error => {
      if (error.message.startsWith('torn')) seen.torn++;
      // A request that the client never sent, because it has no connection, changes nothing.
      else if (error.message.startsWith("Stream isn't writeable")) seen.refused++;
      else (seen.unknown++, console.error(error.message));
    });
    asking = false;
    await pause(20);
  }
  return {client, seen};
}

const jobs = Object.entries(ways).flatMap(([name, way], i) =>
  [true, false].map(resends => ({name, way, resends, counting: count(way, ports[i % ports.length], resends)})));
console.log('ready');

const counts = {}, faults = [];
for (const {name, way, resends, counting} of jobs) {
  const {client, seen} = await counting;
  if (client.status !== 'ready') await new Promise(resolve => client.once('ready', resolve));
  const most = seen.acknowledged + (resends ? seen.breaks : 0) + seen.unknown;
  const values = [];
  for (const key of way.keys) values.push(Number(await client.get(key)));
  const label = `${name}${resends ? '' : ' without resends'}`;
  counts[label] = `${seen.acknowledged} (+${Math.max(...values) - seen.acknowledged} of ${most - seen.acknowledged})`;
  for (const value of values) {
    if (value < seen.acknowledged) faults.push(`${label}: ${seen.acknowledged - value} lost`);
    if (value > most) faults.push(`${label}: ${value - most} doubled`);
  }
  if (seen.torn) faults.push(`${label}: ${seen.torn} transactions torn`);
  if (name === 'transaction' && values[0] !== values[1]) faults.push(`${label}: ${values} differ`);
}
report(counts, faults, breaks);
