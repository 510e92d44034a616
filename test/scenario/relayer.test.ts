/**
 * Eight operations of people without ether, on the real chain: each signed operation is executed once, and balances and
 * approvals match the chain.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Hex } from 'viem'
import { SibylError } from '#client/sibyl-error.ts'
import { MAX_UINT256, UNIT } from '../contracts/support/world.ts'
import { eventually } from '../support/eventually.ts'
import { type Person, SETTLING, startRelayed, TTL } from '../support/relayed.ts'
import { refuseBadInput } from './relayer-bad-input.ts'
import { payForNothing } from './relayer-thrift.ts'

test('the relayer executes approvals, redemptions, proposals and cancellations for traders without ether', async (t) => {
  const relayed = await startRelayed(t, { environment: SETTLING })
  const { chain, person, resolvedMarket, give } = relayed
  const { settlement, conditionalTokens, collateral } = chain

  const mined = async (hash: string) => {
    const receipt = await chain.publicClient.waitForTransactionReceipt({ hash: hash as Hex })
    assert.equal(receipt.status, 'success')
    return receipt
  }
  const assertPenniless = async ({ address }: Person) =>
    assert.equal(await chain.publicClient.getBalance({ address }), 0n)
  const isApproved = ({ address }: Person) =>
    chain.read(conditionalTokens, 'isApprovedForAll', [address, settlement.address])
  const allowance = ({ address }: Person, spender: Hex) =>
    chain.read(collateral, 'allowance', [address, spender])
  const refusal = async (work: Promise<unknown>): Promise<SibylError> => {
    const error = await work.then(
      (answer) => assert.fail(`it was not refused: ${JSON.stringify(answer)}`),
      (thrown: unknown) => thrown,
    )
    assert.ok(error instanceof SibylError, String(error))
    return error
  }

  await t.test(
    'a trader without ether approves the exchange and revokes the approval',
    async () => {
      const ann = await person(UNIT)
      const { success, tx_hash } = await ann.client.relayer.ctfApproval()
      assert.equal(success, true)
      await mined(tx_hash)
      assert.equal(await isApproved(ann), true)
      await mined((await ann.client.relayer.ctfApproval({ approved: false })).tx_hash)
      assert.equal(await isApproved(ann), false)
      await assertPenniless(ann)
    },
  )

  await t.test(
    'through the relayer, a trader without ether permits the exchange or the token contract to take stablecoin',
    async () => {
      const bob = await person(UNIT)
      const unlimited = await bob.client.relayer.sign.stablecoinPermit({ value: 'unlimited' })
      await mined((await bob.client.relayer.submit(unlimited)).tx_hash)
      assert.equal(await allowance(bob, settlement.address), MAX_UINT256)
      const some = await bob.client.relayer.sign.stablecoinPermit({ value: '12.5' })
      const usdc = { ...some, path: '/api/v1/relayer/usdc-permit' }
      const first = await bob.client.relayer.submit(usdc)
      await mined(first.tx_hash)
      assert.equal(await allowance(bob, settlement.address), 12_500_000n)
      // The endpoint has two paths. The same request to the other path gets the same answer.
      assert.deepEqual(await bob.client.relayer.submit(some), first)
      const spender = conditionalTokens.address
      await mined((await bob.client.relayer.stablecoinPermit({ spender, value: 7 })).tx_hash)
      assert.equal(await allowance(bob, spender), 7n)
      await assertPenniless(bob)
    },
  )

  await t.test(
    'a trader without ether redeems shares through the relayer and sees the claim while it is pending',
    async () => {
      const market = await resolvedMarket('NO')
      const cem = await person()
      await give(cem, market, { yes: 3n * UNIT, no: 10n * UNIT })
      const place = { id: market.id, contractAddress: market.address }
      await chain.automine(false)
      const beforeMs = Date.now()
      let hash: string
      try {
        hash = (await cem.client.relayer.ctfRedemption({ market: place })).tx_hash
        const claims = await eventually(async () => {
          const mine = (await cem.client.relayer.pendingClaims()).filter(
            ({ userAddress }) => userAddress === cem.address,
          )
          assert.equal(mine[0]?.txHash, hash)
          return mine
        })
        const { submittedAt, ...claim } = claims[0]!
        assert.deepEqual(claim, {
          txHash: hash,
          userAddress: cem.address,
          marketAddress: market.address,
          marketId: market.id,
          payout: 10_000_000,
          winningOutcome: 1,
        })
        assert.ok(submittedAt >= Math.floor(beforeMs / 1_000))
        assert.ok(submittedAt <= Date.now() / 1_000)
        await chain.mine()
      } finally {
        await chain.automine(true)
      }
      await mined(hash)
      assert.equal(await chain.balance(cem.address), 10n * UNIT)
      assert.equal(await chain.shares(cem.address, market.id, 0), 0n)
      assert.equal(await chain.shares(cem.address, market.id, 1), 0n)
      await eventually(async () => assert.deepEqual(await cem.client.relayer.pendingClaims(), []))
      assert.deepEqual(await cem.client.relayer.failedClaims(), [])
      await assertPenniless(cem)
      const ofCem = async <T>(what: string): Promise<T> => {
        const path = `/api/v1/users/${cem.address}/${what}?chain_id=${chain.chain.id}`
        return (await fetch(relayed.exchange.url + path)).json() as Promise<T>
      }
      await eventually(async () => {
        type Settlement = Record<'txHash' | 'payout' | 'status' | 'winningOutcome', unknown>
        const { settlements } = await ofCem<{ settlements: Settlement[] }>('activity')
        assert.equal(settlements.length, 1)
        const { txHash, payout, status, winningOutcome } = settlements[0]!
        assert.deepEqual(
          [txHash, payout, status, winningOutcome],
          [hash, 10_000_000, 'confirmed', 1],
        )
        type Position = { yesShares: number; noShares: number }
        const { positions } = await ofCem<{ positions: Position[] }>('positions')
        assert.ok(positions.every(({ yesShares, noShares }) => yesShares + noShares === 0))
      })

      // A repeated redemption sends nothing, and the answer has the earlier transaction.
      const before = await relayed.sent()
      const twice = await cem.client.relayer.ctfRedemption({ market: place })
      assert.deepEqual(twice, { success: true, tx_hash: hash })
      const both = await cem.client.relayer.batchCtfRedemption({ markets: [place] })
      assert.deepEqual(both, { success: true, txHash: hash, status: 'confirmed' })
      assert.equal(await relayed.sent(), before)
      const dan = await person()
      const never = await refusal(dan.client.relayer.ctfRedemption({ market: place }))
      assert.equal(never.status, 422)
      assert.match(never.message, /the redemption would pay nothing: the owner has no tokens/)
      await give(dan, market, { yes: UNIT })
      const lost = await refusal(dan.client.relayer.ctfRedemption({ market: place }))
      assert.equal(lost.status, 422)
      assert.match(
        lost.message,
        /the redemption would pay nothing: the owner has only tokens of the losing outcome/,
      )
    },
  )

  await t.test(
    'a trader without ether redeems shares of three markets through the relayer in one transaction',
    async () => {
      const eve = await person()
      const winners = ['YES', 'NO', 'YES'] as const
      const markets = []
      for (const winner of winners) {
        const market = await resolvedMarket(winner)
        await give(eve, market, { yes: 5n * UNIT, no: 2n * UNIT })
        markets.push({ id: market.id, contractAddress: market.address })
      }
      const before = await relayed.sent()
      const request = await eve.client.relayer.sign.batchCtfRedemption({ markets })
      const { success, txHash, status } = await eve.client.relayer.submit<{
        success: boolean
        txHash: string
        status: string
      }>(request)
      assert.deepEqual([success, status], [true, 'pending'])
      const receipt = await mined(txHash)
      assert.equal(receipt.to?.toLowerCase(), chain.multicall.address.toLowerCase())
      assert.equal(await relayed.sent(), before + 1)
      assert.equal(await chain.balance(eve.address), 12n * UNIT)
      for (const { id } of markets) {
        assert.equal(await chain.shares(eve.address, id as Hex, 0), 0n)
        assert.equal(await chain.shares(eve.address, id as Hex, 1), 0n)
      }
      await assertPenniless(eve)
      // The same request again returns the same transaction, which is confirmed by now.
      await eventually(async () =>
        assert.deepEqual(await eve.client.relayer.submit(request), {
          success: true,
          txHash,
          status: 'confirmed',
        }),
      )
      assert.equal(await relayed.sent(), before + 1)
    },
  )

  await t.test(
    'a trader without ether proposes an outcome with their own bond or the relayer’s, and settles the market',
    async () => {
      const soon = (await chain.chain.now()) + 100n
      const own = await chain.createMarket({ expiration: soon })
      const lent = await chain.createMarket({ expiration: soon })
      const fay = await person(600n * UNIT)
      const gus = await person()
      const at = (market: typeof own) => ({ market: { contractAddress: market.address } })
      const early = await refusal(
        fay.client.relayer.proposeResolution({ ...at(own), outcome: 'YES', ...TTL }),
      )
      assert.equal(early.status, 422)
      assert.match(early.message, /^the market has not expired/)
      const nothing = await refusal(
        fay.client.relayer.settleMarket({ ...at(own), winningOutcome: 'YES', ...TTL }),
      )
      assert.equal(nothing.status, 422)
      assert.match(nothing.message, /the market has no proposal/)

      await chain.warp(101n)
      const mine = await fay.client.relayer.proposeResolution({
        ...at(own),
        outcome: 'YES',
        ownBond: true,
        ...TTL,
      })
      await mined(mine.tx_hash)
      const asserted = await chain.read(own, 'assertion', [])
      assert.equal(asserted.proposer, fay.address)
      assert.equal(asserted.asserter, fay.address)
      assert.equal(asserted.outcome, true)
      assert.equal(await chain.balance(fay.address), 100n * UNIT)

      const bank = await chain.balance(chain.relayer.address)
      const theirs = await gus.client.relayer.proposeResolution({
        ...at(lent),
        outcome: 'NO',
        ...TTL,
      })
      await mined(theirs.tx_hash)
      const borrowed = await chain.read(lent, 'assertion', [])
      assert.equal(borrowed.proposer, gus.address)
      assert.equal(borrowed.asserter, chain.relayer.address)
      assert.equal(borrowed.outcome, false)
      assert.equal(await chain.balance(chain.relayer.address), bank - 500n * UNIT)

      const second = await refusal(
        gus.client.relayer.proposeResolution({ ...at(own), outcome: 'NO', ...TTL }),
      )
      assert.equal(second.status, 422)
      assert.match(
        second.message,
        /the market already has an open proposal: wait for the end of its dispute window/,
      )

      const hasty = await refusal(
        gus.client.relayer.settleMarket({ ...at(own), winningOutcome: 'YES', ...TTL }),
      )
      assert.equal(hasty.status, 422)
      assert.match(hasty.message, /^the dispute window has not ended yet: it ends at \d+/)
      assert.equal(await chain.read(own, 'resolved', []), false)
      await chain.warp(7_200n)
      const wrong = await refusal(
        gus.client.relayer.settleMarket({ ...at(own), winningOutcome: 'NO', ...TTL }),
      )
      assert.equal(wrong.status, 422)
      assert.match(wrong.message, /must be the proposed outcome, which is YES/)
      const settled = await gus.client.relayer.settleMarket({
        ...at(own),
        winningOutcome: 'YES',
        ...TTL,
      })
      await mined(settled.tx_hash)
      assert.equal(await chain.read(own, 'resolved', []), true)
      assert.equal(await chain.balance(fay.address), 600n * UNIT)
      assert.equal(await chain.read(conditionalTokens, 'payoutDenominator', [own.id]), 1n)

      // Settling again returns the same transaction; settling with the other outcome is an error.
      const sent = await relayed.sent()
      const again = await fay.client.relayer.settleMarket({
        ...at(own),
        winningOutcome: 'YES',
        ...TTL,
      })
      assert.deepEqual(again, settled)
      const late = await refusal(
        fay.client.relayer.settleMarket({ ...at(own), winningOutcome: 'NO', ...TTL }),
      )
      assert.equal(late.status, 422)
      assert.match(late.message, /the market is already settled: YES won/)
      const over = await refusal(
        fay.client.relayer.proposeResolution({ ...at(own), outcome: 'NO', ...TTL }),
      )
      assert.match(over.message, /the market is already resolved: YES won/)
      assert.equal(await relayed.sent(), sent)
      for (const one of [fay, gus]) await assertPenniless(one)
    },
  )

  await t.test('a trader without ether cancels single orders and all orders on chain', async () => {
    const ida = await person(10n * UNIT)
    const market = await chain.createMarket()
    await eventually(async () => {
      assert.ok((await ida.client.markets()).some(({ id }) => id === market.id))
    })
    const terms = { marketId: market.id, outcome: 'YES', price: '0.01', ...TTL } as const
    const signed = await Promise.all(
      ['1', '2', '3'].map((size) => ida.client.orders.sign({ ...terms, side: 'buy', size })),
    )
    for (const each of signed) await ida.client.orders.submit(each)
    const bids = async () =>
      (await ida.client.orderbook(market.id, 'YES')).bids.map(({ size }) => Number(size) / 1e6)
    assert.deepEqual(await bids(), [6])

    const [first, second] = signed.map(({ order }) => order)
    const some = await ida.client.relayer.sign.cancelOrders({ orders: [first!, second!] })
    const { tx_hash } = await ida.client.relayer.submit(some)
    await mined(tx_hash)
    await eventually(async () => assert.deepEqual(await bids(), [3]))
    assert.equal((await ida.client.relayer.submit(some)).tx_hash, tx_hash)
    const nothing = await refusal(ida.client.relayer.cancelOrders({ orders: [first!], ...TTL }))
    assert.deepEqual([nothing.code, nothing.field], ['WOULD_REVERT', 'orders'])

    await mined((await ida.client.relayer.cancelAllBefore()).tx_hash)
    await eventually(async () => assert.deepEqual(await bids(), []))
    const soon = await refusal(ida.client.relayer.cancelAllBefore())
    assert.equal(soon.code, 'WOULD_REVERT')
    assert.match(soon.message, /takes effect at [0-9]+ \(Unix seconds\): retry after that time/)
    const less = await refusal(ida.client.relayer.cancelAllBefore({ nonce: 1n }))
    assert.deepEqual([less.code, less.field], ['WOULD_REVERT', 'nonce'])
    // Orders signed after the withdrawal have a higher nonce, so they are accepted.
    await ida.client.orders.place({ ...terms, side: 'buy', size: '5' })
    assert.deepEqual(await bids(), [5])
    await assertPenniless(ida)
  })

  await t.test(
    'the relayer refuses a cancellation that another trader signed or that names orders the signature does not cover',
    async () => {
      const [jan, kay] = [await person(UNIT), await person(UNIT)]
      const { order } = await jan.client.orders.sign({
        ...{
          marketId: `0x${'5'.repeat(64)}`,
          outcome: 'NO',
          side: 'sell',
          price: '0.5',
          size: '1',
        },
        ttlSeconds: 3_600,
      } as const)
      const { path, body } = await jan.client.relayer.sign.cancelOrders({ orders: [order] })
      const epoch = await jan.client.relayer.sign.cancelAllBefore({ nonce: 5n })
      const wrong = [
        [{ path, body: { ...body, orders: [{ ...order, nonce: '1' }] } }, 'INVALID_SIGNATURE', 'r'],
        [{ path, body: { ...body, owner: kay.address } }, 'INVALID_FIELD', 'orders[0].trader'],
        [{ path, body: { ...body, orders: [] } }, 'INVALID_FIELD', 'orders'],
        [{ ...epoch, body: { ...epoch.body, nonce: '6' } }, 'INVALID_SIGNATURE', 'r'],
        [{ ...epoch, body: { ...epoch.body, owner: kay.address } }, 'INVALID_SIGNATURE', 'r'],
        [{ ...epoch, body: { ...epoch.body, deadline: '5' } }, 'INVALID_FIELD', 'deadline'],
      ] as const
      for (const [request, code, field] of wrong) {
        const error = await refusal(jan.client.relayer.submit(request))
        assert.deepEqual([error.code, error.field], [code, field])
        assert.doesNotMatch(error.message, /undefined/)
      }
    },
  )

  await t.test(
    'the relayer sends one transaction for a request that arrives many times simultaneously',
    async () => {
      const hal = await person(UNIT)
      const before = await relayed.sent()
      const request = await hal.client.relayer.sign.ctfApproval(TTL)
      const answers = await Promise.all(
        Array.from({ length: 10 }, () => hal.client.relayer.submit(request)),
      )
      for (const answer of answers) assert.deepEqual(answer, answers[0])
      await mined(answers[0]!.tx_hash)
      assert.deepEqual(await hal.client.relayer.submit(request), answers[0])
      assert.equal(await relayed.sent(), before + 1)
    },
  )

  await t.test('the relayer completes several successive operations of one owner', async () => {
    const ida = await person(UNIT)
    const { conditionalTokens: nonce } = await ida.client.relayer.nonces()
    assert.equal(nonce, '0')
    await ida.client.relayer.ctfApproval(TTL)
    await ida.client.relayer.ctfApproval({ approved: false, ...TTL })
    await ida.client.relayer.stablecoinPermit(TTL)
    const { tx_hash } = await ida.client.relayer.ctfApproval(TTL)
    await mined(tx_hash)
    assert.equal((await ida.client.relayer.nonces()).conditionalTokens, '3')
    assert.equal(await isApproved(ida), true)
  })

  await t.test(
    'the relayer refuses invalid requests with the reason, without spending gas',
    (nested) => refuseBadInput(nested, relayed),
  )

  // This test is the last one, because it restarts the exchange with other settings.
  await t.test('the relayer does not pay for an operation that would change nothing', (nested) =>
    payForNothing(nested, relayed),
  )
})
