/**
 * Counts the amounts that trades take from their owners (the trades' needs). A need begins when the trade is matched.
 * If the chain settles the trade in block b, the need of an owner ends once the owner's funds were read at block b or
 * later. These funds already include the trade, so the amount is neither counted twice nor released too early. The
 * market's `TradeConfirmed` event alone does not end a need: the chain itself must report the trade as settled.
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
 * Starts to track a trade, and counts it as a need of its buyer and of its seller. Skips a trader whom another accounts
 * thread serves.
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

/** Marks a trade as unconfirmed, because a reorg removed its confirmation. Returns false if the trade is unknown. */
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
    // The market has reverted the trade, but only the chain decides whether a trade is settled. So the trade stays
    // settled until a step (poll of the chain) reports that a reorg replaced its block.
    if (need.settledBlock !== undefined) markSettled(state, need, need.settledBlock)
    return true
  }
  return false
}

/** Stops tracking a trade that is settled, confirmed, and included in the funds of both owners. */
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
 * Marks the trade of a settlement report as settled. If no tracked trade matches the report, keeps the report in
 * `early`. The record of the match may not be read from the log yet, or the trade may belong to another exchange.
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
 * Returns whether the chain may have settled a trade of the owner whose match this thread has not read from the log
 * yet. The trade has then already reduced the owner's balance, but this thread still counts the order as unfilled.
 * Ignores reports that arrived before the logs were last read to their end, because the matches of these trades are
 * known.
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
 * Handles a reorg that replaced `block` and all later blocks. Trades that settled in the replaced blocks count as
 * unsettled until the chain is queried about them again.
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
