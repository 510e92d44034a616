/**
 * The needs of trades between their match and the end. A trade that the chain settled in block b is a need
 * of an owner only while his funds are of a block before b: so the money is never counted twice between
 * mining and `TradeConfirmed`, and never free too early. What the market takes for confirmed stays a need
 * until the chain itself has been seen to have settled it.
 */

import type { NeedsTrade } from '#domain/funds.ts'
import type { OrderHash, TradeId } from '#domain/ids.ts'
import { accountOf, countBuyer, countSeller, unuse, use } from './account.ts'
import type { Account, AccountsState, ChainAccounts, HeardTrade, TradeNeed } from './state.ts'

/** Trades that are over and kept in mind in case a reorg takes them back, per chain and generation. */
const OVER_MAX = 5_000
/** Settled trades of whose match nothing has been read, per chain. */
const EARLY_MAX = 10_000

function pairOf(buyOrderHash: OrderHash, sellOrderHash: OrderHash): string {
  return buyOrderHash + sellOrderHash
}

export function addTrade(
  state: AccountsState,
  chain: ChainAccounts,
  trade: NeedsTrade,
): TradeNeed | undefined {
  const { isMine } = state.rules
  if (!isMine(trade.buyer) && !isMine(trade.seller)) return undefined
  const need: TradeNeed = {
    trade,
    chain,
    buyer: undefined,
    seller: undefined,
    permit: undefined,
    isBuyerCounted: false,
    isSellerCounted: false,
    settledBlock: undefined,
    confirmed: false,
  }
  hold(state, need)
  if (chain.early.size > 0) settleEarly(state, need)
  return need
}

/** Takes the trade up: a need of both its owners, as far as they are ours. */
function hold(state: AccountsState, need: TradeNeed): void {
  const { trade, chain } = need
  const { isMine } = state.rules
  state.trades.set(trade.tradeId, need)
  const market = state.markets.get(trade.marketId)
  if (market !== undefined) market.trades++
  const pair = pairOf(trade.buyOrderHash, trade.sellOrderHash)
  const others = state.pairs.get(pair)
  if (others === undefined) state.pairs.set(pair, [need])
  else others.push(need)
  if (isMine(trade.buyer)) {
    need.buyer = accountOf(state, chain, trade.buyer)
    use(need.buyer)
  }
  if (isMine(trade.seller)) {
    need.seller = accountOf(state, chain, trade.seller)
    use(need.seller)
  }
  recount(state, need)
}

function letGo(state: AccountsState, need: TradeNeed): void {
  const { trade, chain, buyer, seller } = need
  state.trades.delete(trade.tradeId)
  const market = state.markets.get(trade.marketId)
  if (market !== undefined) market.trades--
  const pair = pairOf(trade.buyOrderHash, trade.sellOrderHash)
  const others = state.pairs.get(pair)
  if (others !== undefined && others.length > 1) others.splice(others.indexOf(need), 1)
  else state.pairs.delete(pair)
  count(state, need, { buyer: false, seller: false })
  chain.settled.delete(need)
  chain.toAsk.delete(need)
  buyer?.settled.delete(need)
  seller?.settled.delete(need)
  need.buyer = undefined
  need.seller = undefined
  if (buyer !== undefined) unuse(state, buyer)
  if (seller !== undefined) unuse(state, seller)
}

function count(
  state: AccountsState,
  need: TradeNeed,
  counted: { readonly buyer: boolean; readonly seller: boolean },
): void {
  countBuyer(state, need, counted.buyer)
  countSeller(state, need, counted.seller)
}

/** Whether it is a need of each owner follows from the blocks of his funds and of its settling. */
function recount(state: AccountsState, need: TradeNeed): void {
  const { buyer, seller, settledBlock } = need
  const isNeed = (owner: Account | undefined): boolean =>
    settledBlock === undefined || owner === undefined || owner.block < settledBlock
  count(state, need, { buyer: isNeed(buyer), seller: isNeed(seller) })
}

/** The chain or its market has refused it, or it is over. */
export function endTrade(state: AccountsState, tradeId: TradeId): void {
  const need = state.trades.get(tradeId)
  if (need !== undefined) letGo(state, need)
}

export function confirmTrade(state: AccountsState, tradeId: TradeId): void {
  const need = state.trades.get(tradeId)
  if (need === undefined) return
  need.confirmed = true
  if (need.settledBlock === undefined) need.chain.toAsk.add(need)
  endIfOver(state, need)
}

/** A reorg removed what had confirmed it; false when nothing is known of it. */
export function revertTrade(state: AccountsState, tradeId: TradeId): boolean {
  const held = state.trades.get(tradeId)
  if (held !== undefined) {
    held.confirmed = false
    return true
  }
  for (const { over, overBefore } of state.chains.values()) {
    const need = over.get(tradeId) ?? overBefore.get(tradeId)
    if (need === undefined) continue
    over.delete(tradeId)
    overBefore.delete(tradeId)
    need.confirmed = false
    hold(state, need)
    // Whether it is settled is the chain's to say: its next step may take that back too.
    if (need.settledBlock !== undefined) markSettled(state, need, need.settledBlock)
    return true
  }
  return false
}

/** It is settled, confirmed, and in the funds of both its owners: it is needed no more. */
function endIfOver(state: AccountsState, need: TradeNeed): void {
  const { buyer, seller, chain, trade } = need
  if (!need.confirmed || need.settledBlock === undefined) return
  if (buyer !== undefined && need.isBuyerCounted) return
  if (seller !== undefined && need.isSellerCounted) return
  letGo(state, need)
  // Whole generations make way: to find the oldest of a map again and again is slow.
  if (chain.over.size >= OVER_MAX) {
    chain.overBefore = chain.over
    chain.over = new Map()
  }
  chain.over.set(trade.tradeId, need)
}

/** The chain has settled it in that block; its owners' funds are to be of that block or later. */
export function markSettled(state: AccountsState, need: TradeNeed, block: number): void {
  const { chain, buyer, seller } = need
  need.settledBlock = block
  chain.settled.add(need)
  chain.toAsk.delete(need)
  for (const owner of [buyer, seller]) {
    if (owner === undefined) continue
    owner.settled.add(need)
    if (owner.block >= block) continue
    owner.wantBlock = Math.max(owner.wantBlock, block)
    chain.toRead.add(owner)
  }
  recount(state, need)
  endIfOver(state, need)
}

/** What a step tells of a trade: ours, one whose match is still to be read, or none of ours. */
export function hearSettled(state: AccountsState, chain: ChainAccounts, settled: HeardTrade): void {
  const { isMine } = state.rules
  if (!isMine(settled.buyer) && !isMine(settled.seller)) return
  const pair = pairOf(settled.buyOrderHash, settled.sellOrderHash)
  for (const need of state.pairs.get(pair) ?? []) {
    if (need.chain !== chain) continue
    if (state.ports.tradeKeyOf(chain.chainId, need.trade) !== settled.tradeKey) continue
    markSettled(state, need, settled.block)
    return
  }
  const early = chain.early.get(pair) ?? []
  chain.early.set(pair, [...early, settled])
  if (chain.early.size <= EARLY_MAX) return
  for (const oldest of chain.early.keys()) {
    chain.early.delete(oldest)
    break
  }
}

/** Its settling was told before its match was read. */
function settleEarly(state: AccountsState, need: TradeNeed): void {
  const { chain, trade } = need
  const pair = pairOf(trade.buyOrderHash, trade.sellOrderHash)
  const early = chain.early.get(pair)
  if (early === undefined) return
  const tradeKey = state.ports.tradeKeyOf(chain.chainId, trade)
  const found = early.find((settled) => settled.tradeKey === tradeKey)
  if (found === undefined) return
  const others = early.filter((settled) => settled !== found)
  if (others.length === 0) chain.early.delete(pair)
  else chain.early.set(pair, others)
  markSettled(state, need, found.block)
}

/**
 * Whether a trade of the owner has settled whose match may still be to be read: then his funds are without
 * what the trade moved, and his orders are still counted with it. Once the logs have been read to an end
 * that was there after the settling was heard, every match before it has been read.
 */
export function hasUnreadMatch({ caughtUpMs }: AccountsState, { chain, trader }: Account): boolean {
  for (const early of chain.early.values()) {
    for (const { buyer, seller, heardAtMs } of early) {
      if (heardAtMs >= caughtUpMs && (buyer === trader || seller === trader)) return true
    }
  }
  return false
}

/** New funds of an owner: trades that are in them are no need any more. */
export function recountSettled(state: AccountsState, account: Account): void {
  for (const need of account.settled) {
    recount(state, need)
    endIfOver(state, need)
  }
}

/** Blocks from this one on were replaced: what was settled in them may not be. */
export function unsettleFrom(state: AccountsState, chain: ChainAccounts, block: number): void {
  for (const over of [chain.over, chain.overBefore]) {
    for (const [tradeId, need] of over) {
      if (need.settledBlock === undefined || need.settledBlock < block) continue
      over.delete(tradeId)
      need.settledBlock = undefined
      hold(state, need)
      chain.toAsk.add(need)
    }
  }
  for (const need of chain.settled) {
    if (need.settledBlock === undefined || need.settledBlock < block) continue
    need.settledBlock = undefined
    chain.settled.delete(need)
    need.buyer?.settled.delete(need)
    need.seller?.settled.delete(need)
    chain.toAsk.add(need)
    recount(state, need)
  }
  for (const [pair, early] of chain.early) {
    const kept = early.filter((settled) => settled.block < block)
    if (kept.length === 0) chain.early.delete(pair)
    else if (kept.length < early.length) chain.early.set(pair, kept)
  }
}
