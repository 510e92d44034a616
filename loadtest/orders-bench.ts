/**
 * `npm run bench -- orders`: measures accepted signed orders per second, end to end over HTTP keep-alive. The durable
 * log and the projector are on, and the sender runs on the same machine. The limit, measured in the same run, is the
 * rate at which one core recovers signatures.
 *
 * Also shows the server's CPU time per order: by kind of thread, and as a multiple of one hash and one signature
 * recovery. Then sends orders at half of the rate (open loop) and shows the latency of each stage. With `--permits`
 * every buy contains a permit, which costs a second recovery. With `--traces` one order of 100 is traced. With
 * `--cores` it also measures one and two threads of each kind, and computes the rate for more cores.
 */

import { makeOrderHasher } from '#domain/order-hash.ts'
import { loadKeccak } from '#verify/keccak.ts'
import { openCollector } from '../test/support/collector.ts'
import { openExchange } from '../test/support/exchange.ts'
import { median, progress, quick, report, runBench } from './bench.ts'
import { Histogram } from './histogram.ts'
import type { Request } from './http-driver.ts'
import { openOrderFlow, requestOf, timedRequestOf } from './order-flow.ts'
import { makeOrderStages } from './order-stages.ts'
import { costsOf, type OrderCosts, showCores } from './orders-cores.ts'
import { secp256k1 } from './signed-orders.ts'

const PER_ROUND = quick ? 6_000 : 15_000
const ROUNDS = quick ? 3 : 5
const WARMUPS = 1
/**
 * The run at half load has two parts that are measured separately. This is the duration of the first part. During it,
 * V8 compiles code that full load did not use, which takes CPU time from the orders.
 */
const YOUNG_SECONDS = quick ? 6 : 10
const STEADY_SECONDS = quick ? 4 : 10
/** One request out of this many returns the times of its stages, at half load. */
const TIMED_EVERY = 4

const permits = process.argv.includes('--permits')

const collector = process.argv.includes('--traces') ? await openCollector() : undefined
const traced = collector === undefined ? {} : { SIBYL_TRACES_URL: collector.url }
const exchange = await openExchange({ environment: { SIBYL_LOG_LEVEL: 'error', ...traced } })
try {
  const { domain, sign, connect, cpuSeconds } = await openOrderFlow(exchange.url, { permits })

  progress('signing orders')
  const rounds = Array.from({ length: ROUNDS + WARMUPS }, () => sign(PER_ROUND).map(requestOf))
  const hashed = sign(2_000)

  const driver = await connect()
  const cpuUs: number[] = []
  const costs: OrderCosts[] = []
  const bareUs: number[] = []
  let crossed = 0

  const place = async (requests: readonly Request[]): Promise<number> => {
    const before = await cpuSeconds()
    const elapsedMs = await driver.closedLoop(requests, ({ status, body }) => {
      if (status !== 200) throw new Error(`${status}: ${body}`)
      if (!body.includes('"matches":0')) crossed++
    })
    const each = costsOf(before, await cpuSeconds(), requests.length)
    costs.push(each)
    cpuUs.push(Object.values(each).reduce((sum, us) => sum + us, 0))
    return (requests.length * 1_000) / elapsedMs
  }

  const hashOrder = makeOrderHasher(domain, loadKeccak().keccak256)
  const prepared = hashed.map(({ order, signature }) => ({
    order,
    digest: Uint8Array.from(hashOrder(order)),
    signature: Buffer.from(signature.slice(2, 130), 'hex'),
    recid: Number.parseInt(signature.slice(130), 16) - 27,
  }))
  /**
   * Returns how many signatures one core recovers per second. Also adds the CPU time of a hash and a recovery to
   * `bareUs`.
   */
  const recoverRate = (): number => {
    const startedMs = performance.now()
    for (const { signature, recid, digest } of prepared) {
      secp256k1.ecdsaRecover(signature, recid, digest)
    }
    const elapsedMs = performance.now() - startedMs
    const before = process.cpuUsage()
    for (const { order, signature, recid } of prepared) {
      secp256k1.ecdsaRecover(signature, recid, hashOrder(order))
    }
    const spent = process.cpuUsage(before)
    bareUs.push((spent.user + spent.system) / prepared.length)
    return (prepared.length * 1_000) / elapsedMs
  }

  const result = await runBench({
    bench: 'orders',
    unit: 'accepted orders/s over HTTP',
    peer: 'native recover, one core',
    bar: 0.6,
    rounds: ROUNDS,
    warmups: WARMUPS,
    ours: ({ index }) => place(rounds[index + WARMUPS] as Request[]),
    theirs: recoverRate,
  })
  const perOrder = median(cpuUs.slice(WARMUPS))
  const perRecover = median(bareUs)
  const share = Math.round((100 * crossed) / ((ROUNDS + WARMUPS) * PER_ROUND))
  process.stdout.write(
    `${share} % of the orders crossed; server CPU per accepted order ${perOrder.toFixed(0)} µs, ` +
      `${(perOrder / perRecover).toFixed(2)} times a hash and a recovery (${perRecover.toFixed(0)} µs)\n`,
  )

  const costOf = (kind: keyof OrderCosts) =>
    `${kind} ${median(costs.slice(WARMUPS).map((each) => each[kind])).toFixed(1)}`
  const kinds = ['verify', 'front', 'market', 'store', 'other'] as const
  process.stdout.write(`of which, in µs: ${kinds.map(costOf).join(', ')}\n`)

  const half = result.figure / 2
  const halfLoad = sign(Math.ceil(half * (YOUNG_SECONDS + STEADY_SECONDS))).map((signed, at) =>
    at % TIMED_EVERY === 0 ? timedRequestOf(signed) : requestOf(signed),
  )
  const atHalf = async (requests: readonly Request[], when: string): Promise<void> => {
    const latencies = new Histogram()
    const stages = makeOrderStages()
    await driver.openLoop(requests, half, (answer) => {
      if (answer.status !== 200) throw new Error(`${answer.status}: ${answer.body}`)
      latencies.recordMs(answer.latencyMs)
      stages.add(answer)
    })
    const at = (q: number) => latencies.quantileMs(q).toFixed(1)
    process.stdout.write(
      `at ${Math.round(half)} orders/s, open loop, ${when}: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, ` +
        `p99.9 ${at(0.999)} ms\n` +
        `of which, p50/p99 in ms: ${stages.line()}\n`,
    )
  }
  const young = Math.round(half * YOUNG_SECONDS)
  await atHalf(halfLoad.slice(0, young), `first ${YOUNG_SECONDS} s`)
  await atHalf(halfLoad.slice(young), `the ${STEADY_SECONDS} s after`)
  driver.close()
  if (process.argv.includes('--cores')) {
    await exchange.kill()
    await showCores(PER_ROUND, ROUNDS)
  }
  report(result)
} finally {
  await exchange.dispose()
  await collector?.close()
}
