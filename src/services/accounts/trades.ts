/**
 * Counts the amounts that trades take (their needs), from the match to the end of the trade. If a trade settles in
 * block b, it stays a need of an owner until the owner’s funds were read at block b or later. So money is never counted
 * twice between mining and `TradeConfirmed`, and never released too early. A trade that the market considers confirmed
 * stays a need until the chain itself reports the trade as settled.
 */

import type { NeedsTrade } from '#domain/funds.ts'
import type { OrderHash, TradeId } from '#domain/ids.ts'
import { remember } from '#domain/remember.ts'
import { accountOf, countBuyer, countSeller, unuse, use } from './account.ts'
import type { Account, AccountsState, ChainAccounts, ReportedTrade, TradeNeed } from './state.ts'

/**
 * Maximum number of ended trades per chain in each of the two maps (new and old). They are remembered because a reorg
 * may revert them.
 */
const OVER_MAX = 5_000
/**
 * Maximum number of order pairs per chain in `early`, which holds settled trades whose match is not read from the log
 * yet. The oldest pairs are dropped.
 */
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
    sellPermit: undefined,
    isBuyerCounted: false,
    isSellerCounted: false,
    settledBlock: undefined,
    confirmed: false,
  }
  hold(state, need)
  if (chain.early.size > 0) settleEarly(state, need)
  return need
}

/**
 * Registers a trade as not ended, and counts it as a need of its buyer and of its seller. A trader whom
 * another accounts thread serves is skipped.
 */
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

/**
 * Updates, for the buyer and the seller, whether the trade is counted as a need. A settled trade is counted
 * until the owner’s funds were read at the settlement’s block or later.
 */
function recount(state: AccountsState, need: TradeNeed): void {
  const { buyer, seller, settledBlock } = need
  const isNeed = (owner: Account | undefined): boolean =>
    settledBlock === undefined || owner === undefined || owner.block < settledBlock
  count(state, need, { buyer: isNeed(buyer), seller: isNeed(seller) })
}

/** Ends a trade that has failed. */
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

/** Reverts a trade whose confirmation a reorg removed; returns false if the trade is unknown. */
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
    // The market reverted the trade, but only the chain decides whether the trade is settled. Until a step reports
    // otherwise, the trade counts as settled.
    if (need.settledBlock !== undefined) markSettled(state, need, need.settledBlock)
    return true
  }
  return false
}

/** Ends a trade that is settled, confirmed, and included in the funds of both owners. */
function endIfOver(state: AccountsState, need: TradeNeed): void {
  const { buyer, seller, chain, trade } = need
  if (!need.confirmed || need.settledBlock === undefined) return
  if (buyer !== undefined && need.isBuyerCounted) return
  if (seller !== undefined && need.isSellerCounted) return
  letGo(state, need)
  // If the new map is full, it becomes the old map, and the previous old map is dropped as a whole. Finding the oldest
  // entry would be slow.
  if (chain.over.size >= OVER_MAX) {
    chain.overBefore = chain.over
    chain.over = new Map()
  }
  chain.over.set(trade.tradeId, need)
}

/** Marks the trade as settled in a block. The funds of its owners must then be read at that block or later. */
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

/**
 * Marks a trade that the chain settled. If the trade is unknown, remembers the report: the trade's match may
 * not be read from the log yet, or the trade may belong to another exchange.
 */
export function applySettled(
  state: AccountsState,
  chain: ChainAccounts,
  settled: ReportedTrade,
): void {
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
  remember(chain.early, pair, [...early, settled], EARLY_MAX)
}

/** If the chain reported a trade as settled before its match was read from the log, marks the trade as settled now. */
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
 * Returns whether a trade of the owner may have settled before its match was read from the log. The owner’s balance
 * then no longer contains the tokens that the trade moved, but the owner’s orders still count these tokens as needed.
 * Once the logs are read to their end after the settlement was reported, every earlier match is known.
 */
export function hasUnreadMatch({ caughtUpMs }: AccountsState, { chain, trader }: Account): boolean {
  for (const early of chain.early.values()) {
    for (const { buyer, seller, lastEventAtMs } of early) {
      if (lastEventAtMs >= caughtUpMs && (buyer === trader || seller === trader)) return true
    }
  }
  return false
}

/** Ends the needs of settled trades that an owner's new balances already include. */
export function recountSettled(state: AccountsState, account: Account): void {
  for (const need of account.settled) {
    recount(state, need)
    endIfOver(state, need)
  }
}

/**
 * Handles a reorg that replaced the blocks from `block` on: trades that settled in these blocks are checked again.
 */
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
