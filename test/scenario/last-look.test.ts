/**
 * Tests on the real chain that the relayer never pays for a last look: a request with which a trader makes a matched
 * trade fail. The relayer refuses requests that would remove funds or approvals that a matched trade or an open order
 * needs. This holds even right after the match. The settlement contract is paused, so that matched trades stay
 * unsettled. The relayer also pays neither for cancellations of unknown orders, nor for redemptions worth less than
 * their gas.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { PermitInput } from '#client/order-submission.ts'
import type { RelayRequest } from '#client/relayer.ts'
import { marketAbi } from '../../contracts/artifacts/Market.abi.ts'
import { UNIT } from '../contracts/support/world.ts'
import { eventually } from '../support/eventually.ts'
import { type Person, SETTLING, startRelayed, TTL } from '../support/relayed.ts'

type Answer = { readonly status: number; readonly body: Record<string, unknown> }

const MIN_REDEMPTION = 10_000n

test('the relayer refuses a trader’s operation that would make the trader’s matched trade fail', async (t) => {
  const relayed = await startRelayed(t, {
    environment: { ...SETTLING, SIBYL_RELAYER_MIN_REDEMPTION: String(MIN_REDEMPTION) },
  })
  const { chain, exchange, person, give, resolvedMarket } = relayed
  const { settlement, conditionalTokens, collateral } = chain
  await chain.chain.send(chain.owner, settlement, 'pause', [])

  const post = async (path: string, body: object): Promise<Answer> => {
    const answer = await fetch(exchange.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    return { status: answer.status, body: (await answer.json()) as Answer['body'] }
  }
  const relay = ({ path, body }: RelayRequest) => post(path, body)
  const refused = async (request: RelayRequest) => {
    const { body } = await relay(request)
    return [body.code, body.field]
  }
  const isApproved = ({ address }: Person) =>
    chain.read(conditionalTokens, 'isApprovedForAll', [address, settlement.address])
  const market = await chain.createMarket()
  await eventually(async () => {
    const listed = await fetch(`${exchange.url}/api/v1/markets/${market.id}`)
    assert.equal(listed.status, 200)
  })
  const terms = (side: 'buy' | 'sell', size = '2', price = '0.5') => ({
    ...{ marketId: market.id, outcome: 'YES' as const, ttlSeconds: 3_600 },
    ...{ side, size, price },
  })
  const seller = async () => {
    const one = await person(UNIT)
    await give(one, market, { yes: 2n * UNIT })
    await one.client.relayer.ctfApproval()
    await eventually(async () => assert.equal(await isApproved(one), true))
    return one
  }
  const buyer = async (allowed = 5n * UNIT) => {
    const one = await person(10n * UNIT)
    await one.client.relayer.stablecoinPermit({ value: Number(allowed) })
    await eventually(async () =>
      assert.equal(
        await chain.read(collateral, 'allowance', [one.address, settlement.address]),
        allowed,
      ),
    )
    return one
  }

  await t.test(
    'the relayer refuses to revoke or lower an allowance right after a match that needs it',
    async () => {
      for (let time = 0; time < 4; time++) {
        const [ann, bob] = [await seller(), await buyer()]
        await eventually(() => ann.client.orders.place(terms('sell')))
        const buying = await bob.client.orders.sign(terms('buy'))
        const revocation = await ann.client.relayer.sign.ctfApproval({ approved: false })
        const lowering = await bob.client.relayer.sign.stablecoinPermit({ value: 0 })
        assert.equal((await bob.client.orders.submit(buying)).matches, 1)
        const codes = await Promise.all([refused(revocation), refused(lowering)])
        assert.deepEqual(codes, [
          ['TRADES_PENDING', 'approved'],
          ['TRADES_PENDING', 'value'],
        ])
        assert.equal(await isApproved(ann), true)
      }
    },
  )

  await t.test(
    'if an order and a revocation of its approval arrive simultaneously, only one of the two succeeds',
    async () => {
      for (let time = 0; time < 4; time++) {
        const ann = await seller()
        const bob = await buyer()
        const bid = await bob.client.orders.place(terms('buy', '2', '0.6'))
        const selling = await ann.client.orders.sign(terms('sell', '2', '0.6'))
        const revocation = await ann.client.relayer.sign.ctfApproval({ approved: false })
        const [sold, revoked] = await Promise.all([
          post('/api/v1/orders', selling),
          relay(revocation),
        ])
        const seen = JSON.stringify([sold, revoked])
        if (revoked.status === 200) {
          assert.equal(sold.body.code, 'ALLOWANCE_CHANGING', seen)
          await eventually(async () => assert.equal(await isApproved(ann), false))
          const { orderHash } = bid
          await bob.client.orders.cancel({ marketId: market.id, orderHash, side: 'buy' })
        } else {
          assert.deepEqual([sold.body.matches, revoked.body.code], [1, 'TRADES_PENDING'], seen)
          assert.equal(await isApproved(ann), true)
        }
      }
    },
  )

  await t.test(
    'the relayer refuses a permit that would invalidate the permit of an open order by using its nonce',
    async () => {
      const cem = await person(10n * UNIT)
      const value = Number(2n * UNIT)
      const own = await cem.client.relayer.sign.stablecoinPermit({ value, ...TTL })
      const buying = await cem.client.orders.sign(terms('buy', '2', '0.1'))
      const { deadline, v, r, s } = own.body as unknown as PermitInput
      const permitSignature = { nonce: '0', value: String(value), deadline, v, r, s }
      const { orderHash } = await cem.client.orders.submit({ ...buying, permitSignature })
      const { sign } = cem.client.relayer
      // These permits use the nonce of the open order's permit. One is for another spender, and two are for too small
      // an amount.
      const spender = conditionalTokens.address
      const elsewhere = await sign.stablecoinPermit({ spender, value: Number(5n * UNIT) })
      assert.deepEqual(await refused(elsewhere), ['ORDERS_OPEN', 'spender'])
      for (const less of [1, 199_999]) {
        const request = await sign.stablecoinPermit({ value: less })
        assert.deepEqual(await refused(request), ['ORDERS_OPEN', 'value'])
      }
      assert.equal(await chain.read(collateral, 'nonces', [cem.address]), 0n)
      // A permit whose amount covers the order may replace the order's own permit.
      assert.equal((await relay(own)).status, 200)
      await eventually(async () =>
        assert.equal(await chain.read(collateral, 'nonces', [cem.address]), 1n),
      )
      await cem.client.orders.cancel({ marketId: market.id, orderHash, side: 'buy' })
      assert.equal((await relay(await sign.stablecoinPermit({ value: 0 }))).status, 200)
    },
  )

  await t.test(
    'the relayer submits on-chain cancellations only of orders that the exchange has accepted',
    async () => {
      const dan = await person(10n * UNIT)
      const invented = await Promise.all(
        Array.from({ length: 20 }, () => dan.client.orders.sign(terms('buy', '2', '0.1'))),
      )
      const before = await relayed.sent()
      const orders = invented.map(({ order }) => order)
      const all = await dan.client.relayer.sign.cancelOrders({ orders })
      assert.deepEqual(await refused(all), ['ORDER_NOT_FOUND', 'orders[0]'])
      await dan.client.orders.submit(invented[0]!)
      const some = await dan.client.relayer.sign.cancelOrders({ orders: orders.slice(0, 2) })
      assert.deepEqual(await refused(some), ['ORDER_NOT_FOUND', 'orders[1]'])
      assert.equal(await relayed.sent(), before)
      // The cancellation comes right after the order was accepted, when the database may not have the order yet.
      const real = await dan.client.relayer.sign.cancelOrders({ orders: orders.slice(0, 1) })
      assert.equal((await relay(real)).status, 200)
    },
  )

  await t.test(
    'the relayer refuses a redemption below the minimum, alone and in a batch',
    async () => {
      const [first, second] = [await resolvedMarket('YES'), await resolvedMarket('YES')]
      const eve = await person()
      await give(eve, first, { yes: MIN_REDEMPTION })
      await give(eve, second, { yes: MIN_REDEMPTION - 1n })
      const placeOf = ({ id, address }: typeof first) => ({ id, contractAddress: address })
      const { sign } = eve.client.relayer
      const before = await relayed.sent()
      const small = await relay(await sign.ctfRedemption({ market: placeOf(second) }))
      assert.deepEqual(small, {
        status: 422,
        body: {
          success: false,
          error:
            'the redemption of conditionId would pay 9999 millionths of the stablecoin, but the minimum is 10000',
          code: 'NOTIONAL_TOO_SMALL',
          field: 'conditionId',
        },
      })
      const both = [placeOf(first), placeOf(second)]
      const batch = await refused(await sign.batchCtfRedemption({ markets: both }))
      assert.deepEqual(batch, ['NOTIONAL_TOO_SMALL', 'redemptions[1].conditionId'])
      assert.equal(await relayed.sent(), before)
      assert.equal((await relay(await sign.ctfRedemption({ market: placeOf(first) }))).status, 200)
    },
  )

  // This test is the last one, because it moves the chain's clock.
  await t.test('the relayer does not redeem tokens that an unsettled sale needs', async () => {
    const { factory, quickOperator } = chain
    const start = await chain.chain.now()
    const terms = ['LATE', start, 3_600, 100n, 'pyth'] as const
    await chain.chain.send(quickOperator, factory, 'createQuickMarket', terms)
    const [address, id] = await chain.read(factory, 'predictQuickMarket', ['LATE', start, 3_600])
    const quick = { address, abi: marketAbi, id, expiration: start + 3_600n }
    const [fay, gus] = [await seller(), await buyer()]
    await give(fay, quick, { yes: 3n * UNIT })
    const order = {
      marketId: id,
      outcome: 'YES',
      price: '0.5',
      size: '2',
      ttlSeconds: 900,
    } as const
    await eventually(() => fay.client.orders.place({ ...order, side: 'sell' }))
    assert.equal((await gus.client.orders.place({ ...order, side: 'buy' })).matches, 1)
    await chain.warp(3_601n)
    const verdict = [address, 100n, 101n, 'pyth'] as const
    await chain.chain.send(quickOperator, factory, 'resolveQuickMarket', verdict)
    const redeem = async () => {
      const market = { id, contractAddress: address }
      return relay(await fay.client.relayer.sign.ctfRedemption({ market, ...TTL }))
    }
    await eventually(async () => {
      const { status, body } = await redeem()
      assert.deepEqual([status, body.code, body.field], [409, 'TRADES_PENDING', 'conditionId'])
    })
    assert.equal(await chain.shares(fay.address, id, 0), 3n * UNIT)
    await chain.chain.send(chain.owner, settlement, 'unpause', [])
    await eventually(async () => assert.equal((await redeem()).status, 200))
    await eventually(async () => assert.equal(await chain.shares(fay.address, id, 0), 0n))
    assert.equal(await chain.balance(fay.address), 3n * UNIT)
  })
})
