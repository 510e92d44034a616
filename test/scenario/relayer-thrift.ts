/**
 * Tests operations that the relayer does not pay for, on the real chain. These are operations without effect, approvals
 * of wallets that hold too little, and revocations of approvals that a trade still needs. For `relayer.test.ts`, whose
 * exchange is restarted for these tests.
 */

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { SibylError } from '#client/sibyl-error.ts'
import { UNIT } from '../contracts/support/world.ts'
import { eventually } from '../support/eventually.ts'
import type { Person, Relayed } from '../support/relayed.ts'

type Refusal = {
  success: boolean
  error: string
  code: string
  field?: string
  tradeIds?: string[]
}

export async function payForNothing(t: TestContext, relayed: Relayed): Promise<void> {
  const { chain, exchange, person, give } = relayed
  const { settlement, conditionalTokens, collateral } = chain
  const approve = (who: Person, approved: boolean, at: number) =>
    // A different deadline makes a different request.
    who.client.relayer.ctfApproval({ approved, ttlSeconds: 3_600 + at })
  const permit = (who: Person, value: bigint, at: number) =>
    who.client.relayer.stablecoinPermit({ value: Number(value), ttlSeconds: 3_600 + at })
  const allowance = ({ address }: Person) =>
    chain.read(collateral, 'allowance', [address, settlement.address])
  const isApproved = ({ address }: Person) =>
    chain.read(conditionalTokens, 'isApprovedForAll', [address, settlement.address])

  await t.test(
    'the relayer sends eight equal approvals as one transaction, and eight equal permits as another',
    async () => {
      const ann = await person(UNIT)
      const before = await relayed.sent()
      const approvals: string[] = []
      for (let at = 0; at < 8; at++) approvals.push((await approve(ann, true, at)).tx_hash)
      await eventually(async () => assert.equal(await isApproved(ann), true))
      const permits: string[] = []
      for (let at = 0; at < 8; at++) permits.push((await permit(ann, 5n * UNIT, at)).tx_hash)
      await eventually(async () => assert.equal(await allowance(ann), 5n * UNIT))
      assert.equal(await relayed.sent(), before + 2)
      for (const hashes of [approvals, permits]) {
        const [first, ...others] = hashes
        assert.match(first!, /^0x[0-9a-f]{64}$/)
        for (const hash of others) assert.ok(hash === first || hash === '', hash)
      }
      // Once the first transaction is confirmed, the answer to a repeated request names this transaction.
      await eventually(async () => {
        assert.equal((await approve(ann, true, 100)).tx_hash, approvals[0])
        assert.equal((await permit(ann, 5n * UNIT, 100)).tx_hash, permits[0])
      })
      // Revoking an approval that was never given also sends no transaction.
      const bob = await person(UNIT)
      assert.deepEqual(await approve(bob, false, 0), { success: true, tx_hash: '' })
      assert.equal(await relayed.sent(), before + 2)
    },
  )

  await t.test(
    'the relayer refuses operations of a wallet that holds only a millionth of a dollar',
    async () => {
      const cem = await person(1n)
      const before = await relayed.sent()
      // The requests are sent one after the other: a promise that rejects before it is awaited would be an unhandled
      // error.
      for (const work of [() => approve(cem, true, 0), () => permit(cem, 5n, 0)]) {
        await assert.rejects(work(), (error) => {
          assert.ok(error instanceof SibylError)
          assert.deepEqual([error.status, error.code], [422, 'INSUFFICIENT_FUNDS'])
          assert.match(
            error.message,
            /^the relayer needs the owner to have 1000000 millionths .* but they have 1$/,
          )
          return true
        })
      }
      assert.equal(await relayed.sent(), before)
    },
  )

  await t.test('the relayer does not revoke an allowance that a pending trade needs', async () => {
    // The contract is paused, so that the trade stays unsettled.
    await chain.chain.send(chain.owner, settlement, 'pause', [])
    const market = await chain.createMarket()
    const [buyer, seller] = [await person(100n * UNIT), await person(UNIT)]
    await give(seller, market, { yes: 10n * UNIT })
    await permit(buyer, 50n * UNIT, 0)
    await approve(seller, true, 0)
    await eventually(async () => {
      const listed = await fetch(`${exchange.url}/api/v1/markets/${market.id}`)
      assert.equal(listed.status, 200)
    })
    const terms = { marketId: market.id, outcome: 'YES', price: '0.5', size: '10' }
    const orders = { ttlSeconds: 3_600, ...terms } as const
    await eventually(() => seller.client.orders.place({ ...orders, side: 'sell' } as never))
    await buyer.client.orders.place({ ...orders, side: 'buy' } as never)
    // The trade is matched but not settled. It still needs 5 dollars of the buyer.
    type Pending = { trades: { tradeId: string }[] }
    const tradeIds = await eventually(async () => {
      const answer = await fetch(`${exchange.url}/api/v1/pending-trades`)
      const { trades } = (await answer.json()) as Pending
      assert.equal(trades.length, 1)
      return trades.map(({ tradeId }) => tradeId)
    })

    const before = await relayed.sent()
    const refused = async (work: Promise<{ path: string; body: object }>): Promise<Refusal> => {
      const { path, body } = await work
      const answer = await fetch(exchange.url + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
      assert.equal(answer.status, 409)
      return (await answer.json()) as Refusal
    }
    const sold = await refused(seller.client.relayer.sign.ctfApproval({ approved: false }))
    assert.deepEqual(sold, {
      success: false,
      error: '1 unsettled trade of the owner still needs this approval: retry when it has settled',
      code: 'TRADES_PENDING',
      field: 'approved',
      tradeIds,
    })
    for (const value of [0n, 5n * UNIT - 1n]) {
      const bought = await refused(
        buyer.client.relayer.sign.stablecoinPermit({ value: Number(value) }),
      )
      assert.deepEqual(
        [bought.code, bought.field, bought.tradeIds],
        ['TRADES_PENDING', 'value', tradeIds],
      )
    }
    assert.equal(await relayed.sent(), before)
    assert.equal(await isApproved(seller), true)
    assert.equal(await allowance(buyer), 50n * UNIT)

    // The allowance may be reduced to the cost of the pending trade.
    await permit(buyer, 5n * UNIT, 1)
    await eventually(async () => assert.equal(await allowance(buyer), 5n * UNIT))
    await approve(buyer, true, 0)
    await approve(buyer, false, 0)
    await permit(seller, 7n, 0)
    await permit(seller, 0n, 0)
    await eventually(async () => assert.equal(await allowance(seller), 0n))
    assert.equal(await isApproved(buyer), false)
  })

  await t.test(
    'on the devnet, the relayer sends one approval and one permit for an empty wallet',
    async () => {
      await exchange.stop()
      await exchange.start({ ...relayed.environment, SIBYL_RELAYER_MIN_HOLDING: '0' })
      const dan = await person()
      const before = await relayed.sent()
      for (let at = 0; at < 3; at++) {
        await approve(dan, true, at)
        await permit(dan, 5n, at)
      }
      await eventually(async () => assert.equal(await isApproved(dan), true))
      await eventually(async () => assert.equal(await allowance(dan), 5n))
      assert.equal(await relayed.sent(), before + 2)
    },
  )
}
