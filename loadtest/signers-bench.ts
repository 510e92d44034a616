/**
 * `npm run bench -- signers`: compares the rate of orders that a delegate signed with the rate of orders that the
 * trader signed. The exchange has its own chain. For both kinds, the run also prints the server's CPU time per order,
 * and the latency at a fixed rate. It also measures orders of contract accounts (Safes), whose code checks each
 * signature. No order matches.
 */

import type { Hex } from 'viem'
import { toAddress } from '#domain/ids.ts'
import { BUY, type Order } from '#domain/order.ts'
import { makeOrderHasher } from '#domain/order-hash.ts'
import { loadKeccak } from '#verify/keccak.ts'
import { UNLIMITED } from '../test/contracts/support/world.ts'
import { eventually } from '../test/support/eventually.ts'
import { makeSafe, type Safe } from '../test/support/safe.ts'
import { openSettled } from '../test/support/settled.ts'
import { median, progress, quick, report, runBench } from './bench.ts'
import { Histogram } from './histogram.ts'
import { openDriver, type Request, writeRequest } from './http-driver.ts'
import { cpuSecondsIn } from './order-flow.ts'
import { makeTrader, type SignedOrder, signOrders, type Trader } from './signed-orders.ts'

const ACCOUNTS = 10
const SAFES = 3
const PER_ROUND = quick ? 4_000 : 10_000
const ROUNDS = quick ? 3 : 5
const WARMUPS = 1
const CONNECTIONS = 64
const STEADY_PER_SECOND = 200
const STEADY_SECONDS = quick ? 4 : 10
const CONTRACT_ORDERS = quick ? 600 : 2_000
/**
 * Number of connections that send orders of contract accounts. A front runs at most this many signature queries to
 * contract accounts at the same time.
 */
const CONTRACT_CONNECTIONS = 16
const PRICE = 400_000

const s = await openSettled({ environment: { SIBYL_LOG_LEVEL: 'error' } })
try {
  const { chain, exchange, marketId } = s
  const domain = {
    chainId: chain.settings.chainId,
    verifyingContract: toAddress(chain.contracts.settlement),
  }
  progress('appointing delegates')
  const accounts = Array.from({ length: ACCOUNTS }, (_, at) => chain.chain.account(10 + at))
  const until = (await chain.chain.now()) + 864_000n
  const delegated: Trader[] = []
  for (const account of accounts) {
    const bot = makeTrader()
    await chain.chain.send(account, chain.delegates, 'setDelegate', [
      bot.address as Hex,
      until,
      UNLIMITED,
    ])
    delegated.push({ key: bot.key, address: toAddress(account.address) })
  }
  const owners = Array.from({ length: ACCOUNTS }, () => makeTrader())
  const sign = (traders: readonly Trader[], count: number): SignedOrder[] =>
    signOrders({ count, traders, markets: [marketId], domain, price: PRICE, side: BUY })

  progress('deploying Safes')
  const safes: Safe[] = []
  for (let at = 0; at < SAFES; at++) {
    safes.push(await makeSafe(chain.chain, chain.chain.account(0), chain.chain.account(11 + at)))
  }
  const hashOrder = makeOrderHasher(domain, loadKeccak().keccak256)
  async function signBySafes(count: number): Promise<SignedOrder[]> {
    const signed: SignedOrder[] = []
    for (const [at, { order }] of sign(owners, count).entries()) {
      const safe = safes[at % safes.length]!
      const its: Order = { ...order, trader: toAddress(safe.address) }
      const digest = `0x${Buffer.from(hashOrder(its)).toString('hex')}` as const
      signed.push({ order: its, signature: await safe.sign(digest) })
    }
    return signed
  }

  const requestOf = (signed: SignedOrder): Request =>
    writeRequest('POST', '/api/v1/orders', JSON.stringify(signed))
  const check = ({ status, body }: { status: number; body: string }): void => {
    if (status !== 200) throw new Error(`${status}: ${body}`)
  }
  const cpuSeconds = async (): Promise<number> =>
    cpuSecondsIn(await (await fetch(`${exchange.url}/metrics`)).text()).get('') ?? 0

  await eventually(async () => {
    for (const one of sign(delegated, ACCOUNTS)) {
      const answer = await fetch(`${exchange.url}/api/v1/orders/validate`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(one),
      })
      const { signer } = (await answer.json()) as { signer: string }
      if (signer !== 'delegate')
        throw new Error(`the exchange reports the signer as ${signer} instead of delegate`)
    }
  })

  progress('signing orders')
  const requests = {
    delegate: Array.from({ length: ROUNDS + WARMUPS }, () => sign(delegated, PER_ROUND)),
    owner: Array.from({ length: ROUNDS + WARMUPS }, () => sign(owners, PER_ROUND)),
  }
  const bySafes = (await signBySafes(CONTRACT_ORDERS)).map(requestOf)
  const cpuUs = { delegate: [] as number[], owner: [] as number[] }
  const driver = await openDriver(exchange.url, CONNECTIONS)

  async function place(kind: 'delegate' | 'owner', round: number): Promise<number> {
    const orders = requests[kind][round + WARMUPS]!.map(requestOf)
    const before = await cpuSeconds()
    const elapsedMs = await driver.closedLoop(orders, check)
    cpuUs[kind].push((((await cpuSeconds()) - before) * 1e6) / orders.length)
    return (orders.length * 1_000) / elapsedMs
  }
  const result = await runBench({
    bench: 'signers',
    unit: 'accepted orders/s signed by delegates',
    peer: 'orders signed by their traders',
    // The required ratio is low: the exchange records an order of a delegate in the database before it sends the order
    // to its market.
    bar: 0.25,
    rounds: ROUNDS,
    warmups: WARMUPS,
    ours: ({ index }) => place('delegate', index),
    theirs: ({ index }) => place('owner', index),
  })
  const cpuOf = (kind: keyof typeof cpuUs) => median(cpuUs[kind].slice(WARMUPS)).toFixed(0)
  process.stdout.write(
    `server CPU per order: ${cpuOf('delegate')} µs signed by a delegate, ${cpuOf('owner')} µs by its trader\n`,
  )

  for (const [kind, traders] of Object.entries({ delegate: delegated, owner: owners })) {
    const latencies = new Histogram()
    const orders = sign(traders, STEADY_PER_SECOND * STEADY_SECONDS).map(requestOf)
    await driver.openLoop(orders, STEADY_PER_SECOND, (answer) => {
      check(answer)
      latencies.recordMs(answer.latencyMs)
    })
    process.stdout.write(
      `${kind}: p50 ${latencies.quantileMs(0.5).toFixed(1)} ms, p99 ${latencies.quantileMs(0.99).toFixed(1)} ms ` +
        `at ${STEADY_PER_SECOND} orders/s\n`,
    )
  }
  driver.close()

  const patient = await openDriver(exchange.url, CONTRACT_CONNECTIONS)
  const latencies = new Histogram()
  const before = await cpuSeconds()
  const elapsedMs = await patient.closedLoop(bySafes, (answer) => {
    check(answer)
    latencies.recordMs(answer.latencyMs)
  })
  const spentUs = (((await cpuSeconds()) - before) * 1e6) / bySafes.length
  patient.close()
  process.stdout.write(
    `contract: ${((bySafes.length * 1_000) / elapsedMs).toFixed(0)} orders/s over ${CONTRACT_CONNECTIONS} connections, ` +
      `p50 ${latencies.quantileMs(0.5).toFixed(1)} ms, p99 ${latencies.quantileMs(0.99).toFixed(1)} ms, ` +
      `server CPU ${spentUs.toFixed(0)} µs an order; the node of the chain shares the machine\n`,
  )
  report(result)
} finally {
  await s.dispose()
}
