// BullMQ: a queue, two workers, retries, delays and priorities. Arguments: three ports. Jobs are added one by one until
// standard input ends; then all that was acknowledged must have completed.
import {Queue, Worker} from 'bullmq';
import {eventually, noMoreWork, pause, report} from './report.mjs';

const ports = process.argv.slice(2).map(Number);
const connection = port => ({host: '127.0.0.1', port, db: 1, maxRetriesPerRequest: null});
const quiet = error => console.error(error.message);

// A job whose worker lost it is found after two to seven seconds, not after the half minute that is usual.
const patience = {lockDuration: 5000, stalledInterval: 2000, maxStalledCount: 10};
const queue = new Queue('jobs', {connection: connection(ports[0])});
let breaks = 0;
queue.on('error', quiet);
(await queue.client).on('close', () => breaks++);

// By the job's name, which is fixed by who adds it and not by the library: ids that completed, runs, retries.
const finished = new Map(), runs = new Map();
let stalled = 0, failed = 0, again = 0;
const workers = ports.slice(1).map(port => {
  const work = async job => {
    runs.set(job.id, (runs.get(job.id) ?? 0) + 1);
    if (job.data.fails && job.attemptsMade === 0) throw new Error('the first attempt fails');
    await pause(5);
    const ids = finished.get(job.name) ?? [];
    finished.set(job.name, [...ids, job.id]);
    return job.data.i * 2;
  };
  const worker = new Worker('jobs', work, {connection: connection(port), concurrency: 4, ...patience});
  worker.on('error', quiet);
  worker.on('stalled', () => stalled++);
  worker.on('failed', (job, error) => error.message === 'the first attempt fails' ? again++ : failed++);
  return worker;
});

let more = true, added = 0;
const unknown = new Set();
noMoreWork.then(() => more = false);
console.log('ready');
for (let i = 0; more; i++, await pause(40)) {
  const options = {attempts: 3, backoff: 50, delay: i % 7 === 0 ? 200 : 0, priority: i % 3};
  await queue.add(`job-${i}`, {i, fails: i % 10 === 0}, options).catch(error => (quiet(error), unknown.add(i)));
  added++;
}

const names = Array.from({length: added}, (_, i) => i).filter(i => !unknown.has(i)).map(i => `job-${i}`);
const left = () => queue.getJobCounts('waiting', 'prioritized', 'delayed', 'active');
const empty = async () => Object.values(await left()).every(count => count === 0);
await eventually(60, async () => names.every(name => finished.has(name)) && await empty());
const lost = names.filter(name => !finished.has(name));
const ids = [...finished.values()];
const doubled = ids.filter(these => new Set(these).size < these.length).length;
const addedTwice = ids.filter(these => new Set(these).size > 1).length;
const stored = await queue.getJobCounts('completed', 'failed');
const distinct = new Set(ids.flat()).size;
const faults = [];
if (lost.length) faults.push(`lost ${lost.slice(0, 5)}`);
if (!await empty()) faults.push(`left over: ${JSON.stringify(await left())}`);
if (stored.completed !== distinct) faults.push(`${stored.completed} jobs are stored as completed, ${distinct} did`);
if (doubled > stalled) faults.push(`${doubled} jobs ran twice, and the library took ${stalled} for stalled`);
if (addedTwice > breaks) faults.push(`${addedTwice} jobs were added twice over ${breaks} broken connections`);
report({jobs: added, completed: distinct, lost: lost.length, retried: again, 'added twice': addedTwice,
  'ran twice': doubled, stalled, failed, unknown: unknown.size}, faults, breaks);
