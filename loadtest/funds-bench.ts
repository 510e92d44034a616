/**
 * `npm run bench -- funds`: measures accepted signed orders per second, end to end over HTTP keep-alive. One exchange
 * reserves funds before it matches and the other does not, in the same run and on the same chain. The demo traders send
 * the orders. Every second order matches the order before it. Nothing is settled.
 */

import { devnetKey } from '#devnet/accounts.ts'
import { type MarketId, toAddress } from '#domain/ids.ts'
import { openTestChain } from '../test/support/chain.ts'
import type { Environment } from '../test/support/exchange.ts'
import { openOnChain } from '../test/support/settled.ts'
import { progress, quick, report, runBench } from './bench.ts'
import { type Request, writeRequest } from './http-driver.ts'
import { openPlacing } from './placing.ts'
import { makeTrader, signOrders } from './signed-orders.ts'

const PER_ROUND = quick ? 5_000 : 15_000
const ROUNDS = quick ? 3 : 5
const WARMUPS = 1
/** Size of an order: small enough that the funds of the demo traders last for all rounds. */
const SIZE = 1_000

const chain = await openTestChain({ seed: true, chainId: 31_339 })
const environment: Environment = {
  SIBYL_LOG_LEVEL: 'error',
  SIBYL_LIMITS: 'false',
  SIBYL_RISK_PENDING_TRADES_MAX: '1000000',
}
const off = await openOnChain(chain, environment)
const reserve = await openOnChain(chain, { ...environment, SIBYL_RISK_FUNDS: 'reserve' })
try {
  const domain = {
    chainId: chain.settings.chainId,
    verifyingContract: toAddress(chain.contracts.settlement),
  }
  const markets = chain.demoMarkets.map(({ id }) => id as string as MarketId)
  const traders = Array.from({ length: 10 }, (_, index) =>
    makeTrader(Buffer.from(devnetKey(10 + index).slice(2), 'hex')),
  )
  progress('signing orders')
  const rounds = Array.from({ length: ROUNDS + WARMUPS }, () =>
    signOrders({ count: PER_ROUND, traders, markets, domain, size: SIZE }).map((signed) =>
      writeRequest('POST', '/api/v1/orders', JSON.stringify(signed)),
    ),
  )

  const [ours, theirs] = [await openPlacing(reserve.url), await openPlacing(off.url)]
  const result = await runBench({
    bench: 'funds',
    unit: 'accepted orders/s over HTTP, funds reserved',
    peer: 'the same, funds not checked',
    bar: 0.9,
    rounds: ROUNDS,
    warmups: WARMUPS,
    ours: ({ index }) => ours.place(rounds[index + WARMUPS] as Request[]),
    theirs: ({ index }) => theirs.place(rounds[index + WARMUPS] as Request[]),
  })
  ours.close()
  theirs.close()
  report(result)
} finally {
  await reserve.dispose()
  await off.dispose()
  await chain.close()
}
