import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hashTypedData, type TypedDataDefinition } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import {
  type Address,
  type MarketId,
  toAddress,
  type Uint64,
  type Uint256,
  ZERO_ADDRESS,
} from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { Order } from '#domain/order.ts'
import type { RelayOperation, SignedPermit } from '#domain/relay.ts'
import { signedMessages } from '#domain/relay-messages.ts'
import { loadKeccak, portableKeccak } from '#verify/keccak.ts'
import { loadRecovery, makeRecoverer } from '#verify/recover.ts'
import { typedDataDigest } from '#verify/typed-data-hash.ts'

const account = privateKeyToAccount(`0x${'7'.repeat(64)}`)
const owner = toAddress(account.address)
const some = (digit: string) => `0x${digit.repeat(40)}` as Address
const permit: SignedPermit = {
  deadline: '1900000000' as Uint256,
  v: 27,
  r: `0x${'1'.repeat(64)}`,
  s: `0x${'2'.repeat(64)}`,
}
const contracts = {
  settlement: some('c'),
  conditionalTokens: some('a'),
  stablecoin: { address: some('b'), domainName: 'USD Coin', domainVersion: '2' },
}
const redemption = {
  ...permit,
  collateralToken: some('b'),
  parentCollectionId: `0x${'0'.repeat(64)}`,
  conditionId: `0x${'3'.repeat(64)}` as MarketId,
  indexSets: ['1', '2'] as Uint256[],
}
const order: Order = {
  marketId: `0x${'3'.repeat(64)}` as MarketId,
  trader: owner,
  side: 0,
  outcome: 1,
  price: 420_000 as Price,
  size: 7 as Shares,
  nonce: '5' as Uint64,
  expiration: '1900000000' as Uint64,
  makerFeeRecipient: ZERO_ADDRESS,
}
const where = { chainId: 137, owner }
const operations: RelayOperation[] = [
  { ...permit, ...where, kind: 'ctf-approval', operator: some('c'), approved: true },
  { ...permit, ...where, kind: 'ctf-approval', operator: some('c'), approved: false },
  {
    ...permit,
    ...where,
    kind: 'stablecoin-permit',
    spender: some('c'),
    value: String(2n ** 256n - 1n) as Uint256,
  },
  { ...redemption, ...where, kind: 'ctf-redemption' },
  { ...where, kind: 'batch-ctf-redemption', redemptions: [redemption, redemption] },
  {
    ...permit,
    ...where,
    kind: 'propose-resolution',
    marketAddress: some('d'),
    outcome: true,
    bond: permit,
  },
  { ...permit, ...where, kind: 'settle-market', marketAddress: some('d'), winningOutcome: 1 },
  { ...permit, ...where, kind: 'cancel-orders', orders: [order, { ...order, side: 1 }] },
  { ...permit, ...where, kind: 'cancel-all-before', nonce: String(2n ** 64n - 1n) as Uint64 },
]

test('the typed-data digest of every relayer message equals the digest by the library viem', async () => {
  const recover = makeRecoverer(await loadRecovery(), portableKeccak)
  let messages = 0
  for (const operation of operations) {
    const nonces = { nonce: 4n, bond: { nonce: 9n, amount: 500_000_000n } }
    for (const message of signedMessages(operation, contracts, nonces)) {
      messages++
      const typed = message as unknown as TypedDataDefinition
      const expected = hashTypedData(typed)
      for (const { keccak256 } of [portableKeccak, loadKeccak()]) {
        const digest = typedDataDigest(message, keccak256)
        assert.equal(`0x${Buffer.from(digest).toString('hex')}`, expected, operation.kind)
      }
      const signature = await account.signTypedData(typed)
      const digest = typedDataDigest(message, portableKeccak.keccak256)
      assert.equal(recover(digest, signature), owner)
    }
  }
  assert.equal(messages, 11)
})

test('each redemption in a batch uses the next nonce, and a bond permit uses the stablecoin’s nonce', () => {
  const [, , , , batch, proposal] = operations
  assert.ok(batch && proposal)
  const nonces = { nonce: 4n, bond: { nonce: 9n, amount: 500_000_000n } }
  const numbered = signedMessages(batch, contracts, nonces)
  assert.deepEqual(
    numbered.map(({ message, path }) => [message.nonce, path]),
    [
      ['4', 'redemptions[0].'],
      ['5', 'redemptions[1].'],
    ],
  )
  const [, bond] = signedMessages(proposal, contracts, nonces)
  assert.equal(bond?.isBond, true)
  assert.deepEqual(bond?.message, {
    owner,
    spender: some('d'),
    value: '500000000',
    nonce: '9',
    deadline: '1900000000',
  })
})
