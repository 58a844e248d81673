// What every program here has: until when it makes work, and how it says what became of it.
import {createInterface} from 'node:readline';

// Resolves when the program that started this one wants no more work: standard input ends.
export const noMoreWork = new Promise(resolve => createInterface({input: process.stdin}).on('close', resolve));

export const pause = ms => new Promise(resolve => setTimeout(resolve, ms));

// Waits until a condition holds, for so many seconds; tells whether it does.
export async function eventually(seconds, condition) {
  for (const end = Date.now() + seconds * 1000; Date.now() < end; await pause(100)) {
    if (await condition()) return true;
  }
  return condition();
}

// Ends the program with counts, things that must never be (`faults`), and things a broken connection may cause.
export function report(counts, faults, breaks) {
  console.log(JSON.stringify({counts, faults, breaks}));
  process.exit(0);
}
