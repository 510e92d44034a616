/** The task of a thread pool: waits until the gate lets its number pass, and then returns the number. */

export function pass({ number, gate }: { number: number; gate: SharedArrayBuffer }): number {
  const open = new Int32Array(gate)
  // Tasks with a number below the value of the gate may finish.
  for (let seen = Atomics.load(open, 0); seen <= number; seen = Atomics.load(open, 0)) {
    Atomics.wait(open, 0, seen)
  }
  return number
}
