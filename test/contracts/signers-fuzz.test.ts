/**
 * Tests random orders of key accounts and of a contract account, which the trader, a delegate or a stranger signed.
 * Between the orders, the test appoints and revokes delegates, and moves the chain's clock. A fill must settle if a
 * simple model of the signers accepts it, and must fail otherwise.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeFunctionData, type Hex } from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import { ours } from '#devnet/artifact.ts'
import { hostileSignerAbi } from '../../contracts/artifacts/test/HostileSigner.abi.ts'
import { sampleOf } from '../support/sample.ts'
import { seeded } from './support/random.ts'
import {
  type Fill,
  MAX_UINT256,
  SETTINGS,
  type SignedOrder,
  startWorld,
  UNIT,
  UNLIMITED,
  YES,
} from './support/world.ts'

const { settlementGraceSeconds: GRACE, cancelDelaySeconds: DELAY } = SETTINGS
const STEPS = Number(process.env.SIBYL_TEST_SIGNER_STEPS ?? sampleOf(120, 3))
const STAKE = 10_000n * UNIT
const PRICE = 500_000n
/**
 * Signature modes of the contract account. The function of each mode returns whether the contract accepts a signature.
 * The function's parameter is true if the account's key made the signature.
 */
const MODES = [
  [0, (isKey: boolean) => isKey],
  [1, () => true],
  [2, () => false],
  [3, () => false],
  [4, () => true],
  [7, () => false],
] as const

test('an order settles only with a signature of its trader, a current delegate or the trader’s code', async () => {
  const seed = Number(process.env.SIBYL_TEST_SEED ?? Date.now() % 1_000_000)
  const random = seeded(seed)
  const world = await startWorld()
  const { chain, owner, ann, bob, carol, relayer, collateral, settlement, delegates } = world
  try {
    const market = await world.createMarket({ expiration: 4_000_000_000n })
    const signers = [ann, carol, chain.account(14), chain.account(15), chain.account(16)]
    const key = chain.account(17)
    const address = await chain.deploy(owner, ours('test/HostileSigner'), [key.address])
    const contract = { address, abi: hostileSignerAbi }
    for (const trader of [ann, carol]) await world.fund(trader, { collateral: STAKE })
    await world.fund(bob, { shares: STAKE, market: market.id })
    await chain.send(owner, collateral, 'mint', [address, STAKE])
    const approve = encodeFunctionData({
      ...{ abi: collateral.abi, functionName: 'approve' },
      args: [settlement.address, MAX_UINT256],
    })
    await chain.send(relayer, contract, 'execute', [collateral.address, approve])
    const traders: readonly Hex[] = [ann.address, carol.address, address]
    const total = 3n * STAKE
    const ends = new Map<string, bigint>()
    const nonces = new Map<Hex, bigint>()
    let mode: (typeof MODES)[number] = MODES[0]
    let salt = 1_000_000n
    let settled = 0n

    const accepts = (trader: Hex, signer: Hex, now: bigint): boolean => {
      if (trader === signer || now <= (ends.get(`${trader} ${signer}`) ?? 0n)) return true
      return trader === address && mode[1](signer === key.address)
    }

    const note = (account: Hex, delegate: Hex, until: bigint, now: bigint): void => {
      const before = ends.get(`${account} ${delegate}`) ?? 0n
      let end = until === 0n ? 0n : until + GRACE
      const soonest = now + DELAY < before ? now + DELAY : before
      if (end < before && end < soonest) end = soonest
      ends.set(`${account} ${delegate}`, end)
      nonces.set(account, (nonces.get(account) ?? 0n) + 1n)
    }

    async function appoint(): Promise<void> {
      const account = random.pick([ann, carol])
      const delegate = random.pick(signers).address
      if (delegate === account.address) return
      const until = random.chance(0.3) ? 0n : (await chain.now()) + BigInt(random.below(100_000))
      if (random.chance(0.5)) {
        await chain.send(account, delegates, 'setDelegate', [delegate, until, UNLIMITED])
      } else {
        const forged = random.chance(0.3)
        const nonce = nonces.get(account.address) ?? 0n
        const old = random.chance(0.2) && nonce > 0n
        const signed = await world.signDelegation(forged ? bob : account, delegate, until, {
          account: account.address,
          nonce: old ? nonce - 1n : nonce,
        })
        const sent = chain.send(relayer, delegates, 'setDelegateWithPermit', signed)
        if (forged || old) return assert.rejects(sent)
        await sent
      }
      note(account.address, delegate, until, await chain.now())
    }

    async function settleSome(): Promise<void> {
      const orders: SignedOrder[] = []
      const fills: Fill[] = []
      const made: { trader: Hex; signer: PrivateKeyAccount }[] = []
      const expiration = (await chain.now()) + 1_000_000n
      for (let count = 1 + random.below(6); count > 0; count--) {
        const signer = random.chance(0.3) ? key : random.pick(signers)
        const isOwn = random.chance(0.3) && (signer === ann || signer === carol)
        const trader = isOwn ? signer.address : random.pick(traders)
        const terms = { price: PRICE, size: UNIT, expiration }
        orders.push(await world.buy(signer, market.id, { ...terms, trader }))
        orders.push(await world.sell(bob, market.id, terms))
        made.push({ trader, signer })
        salt += 1n
        fills.push({
          ...{ buy: orders.length - 2, sell: orders.length - 1, seq: salt, fillIndex: 0 },
          ...{ price: PRICE, size: UNIT },
        })
      }
      const verdicts = await world.settle(orders, fills)
      const now = await chain.now()
      for (const [at, { trader, signer }] of made.entries()) {
        const verdict = verdicts[at]
        assert(verdict !== undefined)
        const expected = accepts(trader, signer.address, now) ? 'settled' : 'InvalidSignature Buyer'
        const found = verdict.settled ? 'settled' : `${verdict.reason} ${verdict.fault}`
        assert.equal(found, expected, `seed ${seed}`)
        if (verdict.settled) settled++
      }
    }

    for (let step = 0; step < STEPS; step++) {
      const kind = random.below(10)
      if (kind < 3) await appoint()
      else if (kind === 3) await chain.warp(BigInt(1 + random.below(30_000)))
      else if (kind === 4) {
        mode = random.pick(MODES)
        await chain.send(relayer, contract, 'arm', [mode[0], address, '0x'])
      } else await settleSome()
    }

    for (const [pair, end] of ends) {
      const [account, delegate] = pair.split(' ') as [Hex, Hex]
      assert.equal(await world.read(delegates, 'settlesUntil', [account, delegate]), end)
    }
    let held = await world.balance(bob.address)
    assert.equal(held, (settled * PRICE * UNIT) / 1_000_000n, `seed ${seed}`)
    let sharesOfTraders = 0n
    for (const trader of traders) {
      held += await world.balance(trader)
      sharesOfTraders += await world.shares(trader, market.id, YES)
    }
    assert.equal(held, total, 'collateral created or lost')
    assert.equal(sharesOfTraders, settled * UNIT)
    assert(settled > 0n)
    assert.equal(await world.balance(settlement.address), 0n)
    for (const { address: signer } of signers.slice(2))
      assert.equal(await world.balance(signer), 0n)
  } finally {
    await chain.close()
  }
})
