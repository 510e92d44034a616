import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { test } from 'node:test'
import { defaults } from '#config/default.ts'
import { contractsOf, stablecoinOf } from '#config/thread-data.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { Front } from '#http/server.ts'
import { warmUpFront } from '#services/front/warm-up.ts'
import {
  makeOrderInspector,
  type OrderInspection,
  type SignedOrder,
  verifiedOrder,
} from '#verify/inspect-orders.ts'
import { loadKeccak } from '#verify/keccak.ts'
import { loadRecovery } from '#verify/recover.ts'

const ORDERS = 200
const chain = {
  chainId: 31_337,
  contracts: {
    stablecoin: `0x${'a1'.repeat(20)}`,
    conditionalTokens: `0x${'a2'.repeat(20)}`,
    settlement: `0x${'a3'.repeat(20)}`,
    marketFactory: `0x${'a4'.repeat(20)}`,
  },
  stablecoin: {},
} as (typeof defaults)['chains'][number]
const settings = {
  ...defaults,
  chains: [chain],
  markets: { ...defaults.markets, warmUpOrders: ORDERS },
}
const domain = {
  chainId: chain.chainId,
  verifyingContract: contractsOf(chain).settlement,
  stablecoin: stablecoinOf(chain),
}
const inspectOrders = makeOrderInspector([domain], await loadRecovery(), loadKeccak())

/** Runs the warm-up with this verifier. Returns the warnings and the port of the scratch server. */
async function warmed(inspect: (signed: SignedOrder) => OrderInspection | Rejection) {
  const warnings: string[] = []
  const servers: Front[] = []
  const log = { warn: (_: object, text: string) => warnings.push(text), error() {}, info() {} }
  await warmUpFront({
    settings,
    verifier: { inspect: async (signed) => inspect(signed), verified: verifiedOrder },
    front: {
      info: { title: 'test', version: '1', description: '' } as never,
      log: log as never,
      settings: { corsOrigins: [], deadlineMs: 60_000, requestsInFlightMax: 1_000 } as never,
    },
    log: log as never,
    limitMs: 120_000,
    opened: (server) => servers.push(server),
  })
  return { warnings, port: servers[0]!.port }
}

test('a front’s warm-up uses validly signed orders of a nonexistent market, and closes its temporary server afterwards', async () => {
  const inspected: SignedOrder[] = []
  const { warnings, port } = await warmed((signed) => {
    inspected.push(signed)
    const inspection = inspectOrders([signed])[0]!
    assert(!isRejection(inspection) && inspection.flaw === null, JSON.stringify(inspection))
    return inspection
  })
  assert.deepEqual(warnings, [])
  assert.equal(inspected.length, ORDERS)
  for (const { order } of inspected) assert.match(order.marketId, /^0x0{64}$/)
  const refused = Promise.withResolvers<unknown>()
  connect(port, '127.0.0.1').on('error', refused.resolve).on('connect', refused.reject)
  assert.equal(((await refused.promise) as { code: string }).code, 'ECONNREFUSED')
})

test('a front starts although its synthetic warm-up orders are refused', async () => {
  const { warnings } = await warmed(() => reject('OVERLOADED'))
  assert.deepEqual(warnings, ['synthetic orders failed; the first orders will be slower'])
})
