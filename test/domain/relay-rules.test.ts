import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Address, MarketId, Uint256 } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { Order } from '#domain/order.ts'
import type { ProposeResolution, RelayOperation, SignedPermit } from '#domain/relay.ts'
import { type RelayTerms, relayFlaw } from '#domain/relay-rules.ts'

const NOW_SEC = 1_800_000_000
const some = (digit: string) => `0x${digit.repeat(40)}` as Address
const terms: RelayTerms = {
  role: 'test',
  settlement: some('a'),
  conditionalTokens: some('b'),
  stablecoin: some('c'),
  deadlineAheadSecMax: 1_000,
  redemptionsMax: 2,
}
const permit = (deadline = NOW_SEC + 100): SignedPermit => ({
  deadline: String(deadline) as Uint256,
  v: 28,
  r: `0x${'1'.repeat(64)}`,
  s: `0x${'2'.repeat(64)}`,
})
const where = { chainId: 1, owner: some('1') }
const proposal: ProposeResolution = {
  ...permit(),
  ...where,
  kind: 'propose-resolution',
  marketAddress: some('d'),
  outcome: true,
}

test('a relayed proposal needs the proposer’s bond on a main chain, but not on a test chain', () => {
  assert.equal(relayFlaw(proposal, terms, NOW_SEC), undefined)
  const main = { ...terms, role: 'main' } as const
  assert.equal(relayFlaw(proposal, main, NOW_SEC)?.field, 'bondPermitDeadline')
  assert.equal(relayFlaw(proposal, main, NOW_SEC)?.rejected, 'MISSING_FIELD')
  for (const chain of [terms, main]) {
    assert.equal(relayFlaw({ ...proposal, bond: permit() }, chain, NOW_SEC), undefined)
    const late = relayFlaw({ ...proposal, bond: permit(NOW_SEC) }, chain, NOW_SEC)
    assert.equal(late?.field, 'bondPermitDeadline')
  }
})

test('a relayed operation is refused if its deadline is past or too far in the future', () => {
  const at = (deadline: number) =>
    relayFlaw({ ...proposal, ...permit(deadline) }, terms, NOW_SEC)?.field
  assert.equal(at(NOW_SEC), 'deadline')
  assert.equal(at(NOW_SEC + 1), undefined)
  assert.equal(at(NOW_SEC + 1_000), undefined)
  assert.equal(at(NOW_SEC + 1_001), 'deadline')
})

test('a relayed approval or permit is accepted only for the exchange’s own contracts', () => {
  const spending = (spender: Address): RelayOperation => ({
    ...permit(),
    ...where,
    kind: 'stablecoin-permit',
    spender,
    value: '1' as Uint256,
  })
  assert.equal(relayFlaw(spending(terms.settlement), terms, NOW_SEC), undefined)
  assert.equal(relayFlaw(spending(terms.conditionalTokens), terms, NOW_SEC), undefined)
  assert.equal(relayFlaw(spending(some('9')), terms, NOW_SEC)?.field, 'spender')
  const approving = (operator: Address): RelayOperation => ({
    ...permit(),
    ...where,
    kind: 'ctf-approval',
    operator,
    approved: true,
  })
  assert.equal(relayFlaw(approving(terms.settlement), terms, NOW_SEC), undefined)
  assert.equal(relayFlaw(approving(terms.conditionalTokens), terms, NOW_SEC)?.field, 'operator')
})

test('a batch of redemptions must list from one to the maximum number of redemptions, each for a different market', () => {
  const redeeming = (digit: string) => ({
    ...permit(),
    collateralToken: terms.stablecoin,
    parentCollectionId: `0x${'0'.repeat(64)}`,
    conditionId: `0x${digit.repeat(64)}` as MarketId,
    indexSets: ['1'] as Uint256[],
  })
  const flaw = (...digits: string[]) => {
    const redemptions = digits.map(redeeming)
    const batch: RelayOperation = { ...where, kind: 'batch-ctf-redemption', redemptions }
    return relayFlaw(batch, terms, NOW_SEC)?.field
  }
  assert.equal(flaw('1', '2'), undefined)
  assert.equal(flaw(), 'redemptions')
  assert.equal(flaw('1', '2', '3'), 'redemptions')
  assert.equal(flaw('1', '1'), 'redemptions[1].conditionId')
})

test('a relayed cancellation must list from one to the maximum number of orders, all of one owner', () => {
  const order = { trader: where.owner, price: 1, size: 1 } as Order
  const fieldOf = (orders: readonly Order[], deadline?: number) =>
    relayFlaw({ ...permit(deadline), ...where, kind: 'cancel-orders', orders }, terms, NOW_SEC)
      ?.field
  assert.equal(fieldOf([order]), undefined)
  assert.equal(fieldOf([order], NOW_SEC), 'deadline')
  assert.equal(fieldOf([]), 'orders')
  assert.equal(fieldOf(Array(20).fill(order)), undefined)
  assert.equal(fieldOf(Array(21).fill(order)), 'orders')
  assert.equal(fieldOf([order, { ...order, trader: some('2') }]), 'orders[1].trader')
  assert.equal(fieldOf([{ ...order, price: 1_000_000 as Price }]), 'orders[0].price')
  assert.equal(fieldOf([{ ...order, size: -1 as Shares }]), 'orders[0].size')
})
