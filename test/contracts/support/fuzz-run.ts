/** `npm run fuzz -- contracts [calls [seed]]`: the long run of the settlement fuzz test. */
import { type FuzzReport, fuzz } from './fuzz.ts'

/**
 * Number of calls per round. Each round has its own chain and the next seed. So memory use does not grow, and a failed
 * round is quick to repeat.
 */
const ROUND_CALLS = 25_000

const calls = Number(process.argv[2] ?? 100_000)
const seed = Number(process.argv[3] ?? Date.now() % 2 ** 31)
console.log(`settlement fuzz: ${calls} calls, seed ${seed}`)
let total: FuzzReport | undefined
for (let round = 0; (total?.calls ?? 0) < calls; round += 1) {
  const left = calls - (total?.calls ?? 0)
  const report = await fuzz({ seed: seed + round, calls: Math.min(left, ROUND_CALLS) })
  total = total === undefined ? report : { ...sum(total, report), seed }
  const memory = Math.round(process.memoryUsage.rss() / 2 ** 20)
  console.log(
    `${total.calls} calls, ${total.settled} settled, ${total.seconds.toFixed(0)} s, ${memory} MB`,
  )
}
console.log(total)

/** Adds the numbers of `b` to those of `a`, at every level. */
function sum<T extends object>(a: T, b: T): T {
  const entries = Object.entries(b).map(([key, value]) => {
    const known = (a as Record<string, unknown>)[key]
    if (typeof value === 'object') return [key, sum((known ?? {}) as object, value as object)]
    return [key, ((known as number | undefined) ?? 0) + Number(value)]
  })
  return { ...a, ...Object.fromEntries(entries) }
}
