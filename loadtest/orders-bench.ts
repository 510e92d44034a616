/**
 * `npm run bench -- orders`: accepted signed orders per second, end to end over HTTP keep-alive, with
 * the durable log and the projector on and the sender on the same machine; beside the rate at which
 * one core recovers signatures and does nothing else, in the same run. Also the server's CPU time per
 * order as a multiple of one hash and recovery, and the latency at half of that rate, open loop.
 */

import { type MarketId, toAddress } from '#domain/ids.ts'
import { makeOrderHasher } from '#domain/order-hash.ts'
import { loadKeccak } from '#verify/keccak.ts'
import { openExchange } from '../test/support/exchange.ts'
import { median, progress, quick, report, runBench } from './bench.ts'
import { Histogram } from './histogram.ts'
import { openDriver, type Request, writeRequest } from './http-driver.ts'
import { makeTrader, type SignedOrder, secp256k1, signOrders } from './signed-orders.ts'

const CONNECTIONS = 128
const PER_ROUND = quick ? 6_000 : 15_000
const ROUNDS = quick ? 3 : 5
const WARMUPS = 1

type Config = { chains: { chainId: number; contracts: { settlement: string } }[] }
type Markets = { markets: { id: MarketId }[] }

const exchange = await openExchange({ environment: { SIBYL_LOG_LEVEL: 'error' } })
try {
  const read = async <T>(path: string): Promise<T> =>
    (await fetch(exchange.url + path)).json() as Promise<T>
  const [chain] = (await read<Config>('/api/v1/config')).chains
  if (chain === undefined) throw new Error('the exchange has no chain')
  const domain = {
    chainId: chain.chainId,
    verifyingContract: toAddress(chain.contracts.settlement),
  }
  const markets = (await read<Markets>('/api/v1/markets')).markets.map(({ id }) => id)
  const traders = Array.from({ length: 100 }, makeTrader)

  progress('signing orders')
  const sign = (count: number) => signOrders({ count, traders, markets, domain })
  const rounds = Array.from({ length: ROUNDS + WARMUPS }, () => sign(PER_ROUND).map(requestOf))
  const hashed = sign(2_000)

  const driver = await openDriver(exchange.url, CONNECTIONS)
  const cpuUs: number[] = []
  const bareUs: number[] = []
  let crossed = 0

  const place = async (requests: readonly Request[]): Promise<number> => {
    const before = await serverCpuSeconds()
    const elapsedMs = await driver.closedLoop(requests, ({ status, body }) => {
      if (status !== 200) throw new Error(`${status}: ${body}`)
      if (!body.includes('"matches":0')) crossed++
    })
    cpuUs.push((((await serverCpuSeconds()) - before) * 1e6) / requests.length)
    return (requests.length * 1_000) / elapsedMs
  }

  const serverCpuSeconds = async (): Promise<number> => {
    const text = await (await fetch(`${exchange.url}/metrics`)).text()
    return Number(/^process_cpu_seconds_total\S* (\S+)/m.exec(text)?.[1])
  }

  const hashOrder = makeOrderHasher(domain, loadKeccak().keccak256)
  const prepared = hashed.map(({ order, signature }) => ({
    order,
    digest: Uint8Array.from(hashOrder(order)),
    signature: Buffer.from(signature.slice(2, 130), 'hex'),
    recid: Number.parseInt(signature.slice(130), 16) - 27,
  }))
  /** One core, nothing but recovery; beside it the CPU time of a hash and a recovery. */
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

  const half = result.figure / 2
  const latencies = new Histogram()
  await driver.openLoop(sign(Math.ceil(half * (quick ? 3 : 10))).map(requestOf), half, (answer) => {
    if (answer.status !== 200) throw new Error(`${answer.status}: ${answer.body}`)
    latencies.recordMs(answer.latencyMs)
  })
  const at = (q: number) => latencies.quantileMs(q).toFixed(1)
  process.stdout.write(
    `at ${Math.round(half)} orders/s, open loop: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, ` +
      `p99.9 ${at(0.999)} ms\n`,
  )
  driver.close()
  report(result)
} finally {
  await exchange.dispose()
}

function requestOf(signed: SignedOrder): Request {
  return writeRequest('POST', '/api/v1/orders', JSON.stringify(signed))
}
