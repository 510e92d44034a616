/**
 * `npm run bench -- transparency`: measures accepted signed orders per second, end to end over HTTP keep-alive. The run
 * compares an exchange that publishes its log with an exchange that does not. It also shows the CPU time of the
 * transparency thread per event, and the time from the answer to an order until the order's proof is available.
 */

import { openExchange } from '../test/support/exchange.ts'
import { median, progress, quick, report, runBench } from './bench.ts'
import type { Request } from './http-driver.ts'
import { openOrderFlow, requestOf } from './order-flow.ts'
import { costsOf, type OrderCosts } from './orders-cores.ts'

const PER_ROUND = quick ? 6_000 : 15_000
const ROUNDS = quick ? 3 : 5
const WARMUPS = 1
const PROOFS = 20

const environment = { SIBYL_LOG_LEVEL: 'error' }
const off = await openExchange({ environment })
const on = await openExchange({ environment: { ...environment, SIBYL_TRANSPARENCY: 'on' } })

/** Returns the sum of a counter in `/metrics` over all lines that contain `thread`; by default over all threads. */
async function counted(name: string, thread = ''): Promise<number> {
  const text = await (await fetch(`${on.url}/metrics`)).text()
  return text
    .split('\n')
    .filter((line) => line.startsWith(`${name}{`) && line.includes(thread))
    .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}

try {
  const [ours, theirs] = [await openOrderFlow(on.url), await openOrderFlow(off.url)]
  progress('signing orders')
  const rounds = [ours, theirs].map(({ sign }) =>
    Array.from({ length: ROUNDS + WARMUPS }, () => sign(PER_ROUND).map(requestOf)),
  )
  const costs: OrderCosts[][] = [[], []]
  const drivers = [await ours.connect(), await theirs.connect()]
  const place = async (which: number, index: number): Promise<number> => {
    const requests = rounds[which]?.[index + WARMUPS] as Request[]
    const { cpuSeconds } = which === 0 ? ours : theirs
    const before = await cpuSeconds()
    const elapsedMs = await drivers[which]!.closedLoop(requests, ({ status, body }) => {
      if (status !== 200) throw new Error(`${status}: ${body}`)
    })
    costs[which]?.push(costsOf(before, await cpuSeconds(), requests.length))
    return (requests.length * 1_000) / elapsedMs
  }
  const result = await runBench({
    bench: 'transparency',
    unit: 'accepted orders/s over HTTP, the log public',
    peer: 'the same, the log not public',
    bar: 0.97,
    rounds: ROUNDS,
    warmups: WARMUPS,
    ours: ({ index }) => place(0, index),
    theirs: ({ index }) => place(1, index),
  })

  const perOrder = (which: number): string => {
    const kinds = ['verify', 'front', 'market', 'store', 'other'] as const
    const each = kinds.map((kind) => median(costs[which]!.slice(WARMUPS).map((cost) => cost[kind])))
    const sum = each.reduce((total, us) => total + us, 0)
    return `${sum.toFixed(1)} (${kinds.map((kind, at) => `${kind} ${each[at]?.toFixed(1)}`).join(', ')})`
  }
  process.stdout.write(`CPU per order in µs: public ${perOrder(0)}, not public ${perOrder(1)}\n`)

  // Waits until the number of published events stops growing, because the transparency thread may still be adding
  // entries.
  let events = -1
  for (let now = 0; now !== events; ) {
    events = now
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    now = await counted('sibyl_public_log_events_total')
  }
  const cpu = await counted('sibyl_thread_cpu_seconds_total', 'thread="transparency"')
  process.stdout.write(
    `${events} events; the thread took ${((cpu * 1_000_000) / events).toFixed(2)} µs of CPU for each, its start included\n`,
  )

  const provableMs: number[] = []
  for (const request of ours.sign(PROOFS).map(requestOf)) {
    let orderHash = ''
    await drivers[0]!.closedLoop([request], ({ body }) => {
      orderHash = (JSON.parse(body) as { orderHash: string }).orderHash
    })
    const answeredMs = performance.now()
    while ((await fetch(`${on.url}/api/v1/orders/${orderHash}/proof`)).status !== 200) {
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    provableMs.push(performance.now() - answeredMs)
  }
  process.stdout.write(
    `from the answer to an order until it can be proven: p50 ${median(provableMs).toFixed(0)} ms, ` +
      `max ${Math.max(...provableMs).toFixed(0)} ms\n`,
  )
  for (const driver of drivers) driver.close()
  report(result)
} finally {
  await on.dispose()
  await off.dispose()
}
