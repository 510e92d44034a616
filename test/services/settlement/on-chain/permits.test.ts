/** Tests permits of orders that are forged, impossible, out of order, or submitted by another account. */

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Hex } from 'viem'
import { toAddress } from '#domain/ids.ts'
import { type PermitSignature, SELL } from '#domain/order.ts'
import { openTestChain, type TestChain } from '../../../support/chain.ts'
import { permitsOf, type SettlementWorld, startWorld, type WorldOptions } from './chain-fixture.ts'

const OWNER = 5
const MAKER = 10
const [BUYER, OTHER_MAKER] = [11, 12]
const uint256 = (value: bigint) => String(value) as PermitSignature['value']
/** More than a uint256 can hold. */
const TOO_MUCH = uint256(2n ** 256n)
const FORGED = { v: 27, r: `0x${'1'.repeat(64)}`, s: `0x${'2'.repeat(64)}` } as const

let chain: TestChain
before(async () => {
  chain = await openTestChain({ seed: true })
})
after(() => chain.close())

/** Revokes the owner's allowance; returns permits of these values, in the order of their nonces. */
async function ownPermits(values: readonly bigint[]): Promise<PermitSignature[]> {
  await approve(0n)
  return permitsOf(chain, OWNER, values)
}

async function approve(value: bigint): Promise<void> {
  const { settlement } = chain.contracts
  await chain.chain.send(chain.chain.account(OWNER), chain.collateral, 'approve', [
    settlement,
    value,
  ])
}

/** Submits a permit from another account, which anyone may do. */
async function submitAsStranger(permit: PermitSignature): Promise<void> {
  const { value, deadline, v, r, s } = permit
  await chain.chain.send(chain.chain.account(9), chain.collateral, 'permit', [
    chain.chain.account(OWNER).address,
    chain.contracts.settlement,
    BigInt(value),
    BigInt(deadline),
    v,
    r as Hex,
    s as Hex,
  ])
}

const inWorld =
  (body: (world: SettlementWorld) => Promise<void>, options: WorldOptions = {}) =>
  async () => {
    const world = await startWorld(chain, options)
    try {
      await body(world)
      await world.until('every trade is decided', world.allDecided)
      await world.agree()
    } finally {
      await world.close()
    }
  }

async function endsOf(world: SettlementWorld) {
  const all = await world.trades()
  return all.map(({ status, reason }) => [status, reason]).reverse()
}

function failuresOf({ said }: SettlementWorld) {
  return said.flatMap((each) =>
    each.type === 'TradeEnded' && each.status === 'failed' ? [[each.reason, each.fault]] : [],
  )
}

describe('a trade whose permit cannot be encoded fails', () => {
  for (const [field, change] of Object.entries({
    value: { value: TOO_MUCH },
    deadline: { deadline: String(TOO_MUCH) as PermitSignature['deadline'] },
    nonce: { nonce: 'none' as PermitSignature['nonce'] },
    r: { r: '0x1' },
  })) {
    it(
      `if the ${field} of a permit cannot be encoded, only the trade of that permit fails`,
      inWorld(async (world) => {
        const [permit] = await ownPermits([500_000n])
        await world.place({ by: MAKER, side: SELL })
        await world.place({ by: OWNER, permit: { ...permit!, ...change } })
        await world.trade({ seller: OTHER_MAKER, buyer: BUYER, price: 0.6 })
        for (let steps = 0; steps < 20; steps++) await world.step()
        world.kill()
        await world.until('all are decided', world.allDecided)
        assert.deepEqual(await endsOf(world), [
          ['failed', 'InsufficientAllowance'],
          ['confirmed', ''],
        ])
      }),
    )
  }
})

describe('a trade whose buyer submitted forged permits fails', () => {
  it(
    'a trade with a forged permit fails at once, even if the buyer approves the payment later',
    inWorld(async (world) => {
      await ownPermits([])
      const next = await chain.read(chain.collateral, 'nonces', [
        chain.chain.account(OWNER).address,
      ])
      const forged = (at: number): PermitSignature => ({
        nonce: String(next + BigInt(at)) as PermitSignature['nonce'],
        value: uint256(500_000n),
        deadline: '9999999999' as PermitSignature['deadline'],
        ...FORGED,
      })
      for (let at = 0; at < 33; at++) {
        await world.place({ by: MAKER, side: SELL })
        await world.place({ by: OWNER, permit: forged(at) })
        await world.until('it is decided', world.allDecided)
      }
      await world.place({ by: MAKER, side: SELL, price: 0.4 })
      await world.place({ by: OWNER, price: 0.4, permit: forged(33) })
      for (let steps = 0; steps < 3; steps++) await world.step()
      const before = failuresOf(world).length
      // The buyer now approves the payment, because the price has moved.
      await approve(10_000_000n)
      for (let steps = 0; steps < 30; steps++) await world.step(60_000)
      assert.equal(before, 34)
      assert.deepEqual(failuresOf(world), Array(34).fill(['InsufficientAllowance', 'buyer']))
    }),
  )
})

describe('settlement settles trades whose permits another account submits first', () => {
  for (const [what, values, blocks] of [
    ['a permit', [500_000n, 500_000n], 2],
    ['each of three permits in one transaction', [500_000n, 1_000_000n, 1_500_000n], 1],
  ] as const) {
    it(
      `a trade settles although another account submits ${what} before the settlement transaction`,
      inWorld(async (world) => {
        const permits = await ownPermits(values)
        await world.place({ by: MAKER, side: SELL, size: values.length })
        for (const permit of permits) await world.place({ by: OWNER, permit })
        const seen = new Set<string>()
        const sent = new Set<string>()
        world.proxy.before = async (method, [raw]) => {
          if (method !== 'eth_sendRawTransaction') return
          sent.add(String(raw))
          // Another account sees the transaction in the pool, and submits all its permits first.
          for (const permit of permits) {
            if (seen.has(permit.r) || !String(raw).includes(permit.r.slice(2))) continue
            seen.add(permit.r)
            await submitAsStranger(permit)
          }
        }
        await world.until('all are decided', world.allDecided)
        assert.deepEqual([seen.size, sent.size], [values.length, blocks])
        assert.deepEqual(await world.statuses(), Array(values.length).fill('confirmed'))
      }),
    )
  }
})

describe('settlement also sends permits of open orders if a later permit needs them', () => {
  it(
    'settlement sends unused permits of an owner’s open orders together with the owner’s later permit',
    inWorld(async (world) => {
      const [resting, next] = await ownPermits([100_000n, 500_000n])
      await world.place({ by: OWNER, price: 0.1, permit: resting! })
      await world.place({ by: MAKER, side: SELL })
      await world.place({ by: OWNER, permit: next! })
      await world.until('it is decided', world.allDecided)
      assert.deepEqual(await world.statuses(), ['confirmed'])
      const book = world.host.thread.markets.get(world.marketId)?.state.books[0]
      assert.equal(book?.ordersOf(toAddress(chain.chain.account(OWNER).address)).length, 1)
    }),
  )
})
