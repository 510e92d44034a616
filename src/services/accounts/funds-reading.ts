/**
 * Reads a chain in steps; each step ends at a block. Reads the funds of owners at the block of the last step, starting
 * with owners for whom a request waits. Checks which trades the chain has settled.
 */

import { backoff } from '#domain/backoff.ts'
import type { ChainFunds, FundsQuestion, FundsStep, FundsToken } from '#domain/funds.ts'
import { changed, forget, IDLE_TOKENS_MAX } from './account.ts'
import { cover } from './cover.ts'
import { recountPermits } from './permits.ts'
import type {
  Account,
  AccountsContext,
  AccountsState,
  ChainAccounts,
  Sums,
  TradeNeed,
} from './state.ts'
import { applySettled, recountSettled, unsettleFrom } from './trades.ts'

/** Maximum number of owners in one read, and maximum number of concurrent reads per chain. */
const OWNERS_READ_MAX = 100
const READS_MAX = 4
/** Maximum number of trades in one request that asks the chain which trades are settled. */
const TRADES_ASKED_MAX = 200

const PAUSE_MS = 250
const PAUSE_MS_MAX = 5_000

/** Starts the next step if it is due. */
export function step(chain: ChainAccounts, state: AccountsState, context: AccountsContext): void {
  const begunAtMs = context.nowMs
  if (chain.stepping || begunAtMs < chain.nextStepMs) return
  chain.stepping = true
  chain.nextStepMs = begunAtMs + state.rules.stepEveryMs
  chain.unseen.clear()
  const { chainId } = chain
  context.pipe(
    chain.port.step(chain.watched),
    (fundsStep) => ({ type: 'Stepped', message: { chainId, step: fundsStep, begunAtMs } }),
    (error) => ({ type: 'StepFailed', message: { chainId, why: whyOf(error) } }),
  )
}

export function whyOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

export function stepFailed(chain: ChainAccounts, why: string, nowMs: number): void {
  chain.stepping = false
  chain.trouble = why
  chain.nextStepMs = nowMs + backoff(PAUSE_MS, PAUSE_MS_MAX, chain.failures)
  chain.failures++
}

/**
 * Applies the result of a step: marks settled trades, and queues new reads for owners whose funds may have
 * changed.
 */
export function applyFundsStep(
  state: AccountsState,
  chain: ChainAccounts,
  fundsStep: FundsStep,
  nowMs: number,
): void {
  chain.stepping = false
  chain.failures = 0
  chain.trouble = ''
  const isFirst = chain.place === undefined
  chain.place = { block: fundsStep.block, blockHash: fundsStep.blockHash }
  if (fundsStep.rewoundTo !== undefined) rewind(state, chain, fundsStep.rewoundTo)
  for (const settled of fundsStep.settled) {
    applySettled(state, chain, { ...settled, lastEventAtMs: nowMs })
  }
  for (const owner of fundsStep.touched) {
    const account = chain.accounts.get(owner)
    if (account !== undefined) outdate(account, fundsStep.block)
  }
  for (const account of chain.unseen) outdate(account, fundsStep.block)
  chain.unseen.clear()
  if (isFirst) {
    for (const account of chain.busy) outdate(account, fundsStep.block)
  }
}

/** Marks the account’s funds as older than this block, so that they are read again. Removes an idle account instead. */
function outdate(account: Account, block: number): void {
  account.wantBlock = Math.max(account.wantBlock, block)
  if (account.uses === 0) forget(account)
  else account.chain.toRead.add(account)
}

/**
 * Handles a reorg that replaced the blocks from `block` on. Closes the chain: no order is judged until it is known
 * which trades the chain has settled. Queues the affected accounts to be read again.
 */
function rewind(state: AccountsState, chain: ChainAccounts, block: number): void {
  const place = chain.place!
  chain.epoch++
  chain.isOpen = false
  chain.asking = []
  chain.isAsking = false
  // Block 0 means that the step found no common block with the last step, or could not read all settled trades. It is
  // then unknown which trades settled since the last step. Check the trades one by one, as after the first step.
  if (block === 0) {
    chain.firstSteppedMs = 0
    chain.hasAskedAll = false
  }
  for (const account of chain.accounts.values()) {
    account.wantBlock = Math.min(account.wantBlock, place.block)
    if (account.block < block) continue
    account.block = -1
    outdate(account, place.block)
  }
  unsettleFrom(state, chain, block)
}

/**
 * Queues a part of the busy accounts (with open orders, trades, promises or waiting requests) to be read again.
 * Repeated calls queue every busy account within `sweepMs`.
 */
export function sweep(chain: ChainAccounts, { rules }: AccountsState): void {
  const turns = Math.max(1, Math.floor(rules.sweepMs / rules.stepEveryMs))
  for (let left = Math.ceil(chain.busy.size / turns); left > 0; left--) {
    chain.sweeping ??= chain.busy.values()
    const next = chain.sweeping.next()
    if (next.done === true) {
      chain.sweeping = undefined
      return
    }
    chain.toRead.add(next.value)
  }
}

/** Starts reads of the queued owners, up to the maximum number of concurrent reads. */
export function readNext(chain: ChainAccounts, context: AccountsContext): void {
  const { place, chainId, epoch } = chain
  if (place === undefined) return
  while (chain.reads < READS_MAX) {
    const accounts: Account[] = []
    for (const queue of [chain.asked, chain.toRead]) {
      for (const account of queue) {
        if (accounts.length === OWNERS_READ_MAX) break
        // An owner that is being read stays in the queue, and is read again after the current read.
        if (account.reading) continue
        queue.delete(account)
        account.reading = true
        accounts.push(account)
      }
    }
    if (accounts.length === 0) return
    chain.reads++
    const owners = accounts.map(({ trader }) => trader)
    context.pipe(
      chain.port.read(accounts.map(questionOf), place),
      (read) => ({ type: 'FundsRead', message: { chainId, epoch, owners, read } }),
      (error) => ({
        type: 'FundsUnread',
        message: { chainId, epoch, owners, why: whyOf(error) },
      }),
    )
  }
}

function questionOf({ trader, holdings }: Account): FundsQuestion {
  let idle = 0
  for (const holding of holdings.values()) if (isIdle(holding)) idle++
  const tokens: FundsToken[] = []
  for (const holding of holdings.values()) {
    // Keep the last `IDLE_TOKENS_MAX` tokens without a need, and drop the others.
    if (isIdle(holding) && idle-- > IDLE_TOKENS_MAX) holdings.delete(holding.token)
    else tokens.push(holding.token)
  }
  return { owner: trader, tokens }
}

function isIdle({ open, pending, promised }: Sums): boolean {
  return open === 0n && pending === 0n && promised === 0n
}

/** Applies an owner's funds from the chain. Only one read per owner is in progress, so these funds are the newest. */
export function takeFunds(state: AccountsState, account: Account, funds: ChainFunds): void {
  const { balance, allowance, nonce, isApproved, tokens } = funds
  let isSame =
    account.block >= 0 &&
    account.balance === balance &&
    account.allowance === allowance &&
    account.nonce === nonce &&
    account.isApproved === isApproved
  account.block = funds.block
  account.balance = balance
  account.allowance = allowance
  account.nonce = nonce
  recountPermits(account)
  account.isApproved = isApproved
  for (const holding of account.holdings.values()) {
    const held = tokens.get(holding.token)
    isSame &&= holding.held === held
    holding.held = held
  }
  if (!isSame) changed(state, account)
  recountSettled(state, account)
}

/**
 * Returns whether the account must be read: its funds are outdated, or the balance of a token in an open sell order was
 * never read.
 */
export function isUnread({ block, wantBlock, holdings, sales }: Account): boolean {
  if (block < wantBlock) return true
  if (sales === 0) return false
  for (const { held, openMin } of holdings.values()) {
    if (held === undefined && openMin > 0n) return true
  }
  return false
}

/**
 * Starts the check of trades whose settlement no step reported. Trades that settled before the first step may still be
 * unread in the logs. So the first check waits until the logs have been read to their end once more after that step.
 */
export function askAfterStep(
  state: AccountsState,
  chain: ChainAccounts,
  context: AccountsContext,
): void {
  if (chain.firstSteppedMs === 0) chain.firstSteppedMs = context.nowMs
  if (!chain.hasAskedAll) {
    if (state.caughtUpMs <= chain.firstSteppedMs) return
    chain.hasAskedAll = true
    for (const need of state.trades.values()) {
      if (need.chain === chain && need.settledBlock === undefined) chain.toAsk.add(need)
    }
  }
  if (!chain.isAsking && chain.asking.length === 0) chain.asking = [...chain.toAsk]
  askNext(state, chain, context)
}

/**
 * Queues a check of whether the chain has settled the trade. Until this check is done, the chain is closed:
 * no order is judged.
 */
export function doubt(chain: ChainAccounts, need: TradeNeed): void {
  chain.toAsk.add(need)
  if (!chain.hasAskedAll) return
  chain.isOpen = false
  chain.asking.push(need)
}

/**
 * Checks the next part of the trades that no step reported as settled. If no trade is left to check, opens the chain.
 */
export function askNext(
  state: AccountsState,
  chain: ChainAccounts,
  context: AccountsContext,
): void {
  const { place, chainId, epoch } = chain
  if (place === undefined || chain.isAsking) return
  const needs: typeof chain.asking = []
  while (needs.length < TRADES_ASKED_MAX && chain.asking.length > 0) {
    const need = chain.asking.pop()!
    if (chain.toAsk.has(need)) needs.push(need)
  }
  if (needs.length === 0) {
    open(state, chain, context)
    return
  }
  chain.isAsking = true
  const trades = needs.map(({ trade }) => ({
    ...trade,
    tradeKey: state.ports.tradeKeyOf(chainId, trade),
  }))
  const tradeIds = trades.map(({ tradeId }) => tradeId)
  context.pipe(
    state.ports.areSettled(chainId, trades, place),
    (settled) => ({
      type: 'SettledRead',
      message: { chainId, epoch, at: place, tradeIds, settled },
    }),
    (error) => ({ type: 'SettledUnread', message: { chainId, epoch, why: whyOf(error) } }),
  )
}

/** Opens the chain: all settled trades are known, so the funds of accounts can be checked. */
function open(state: AccountsState, chain: ChainAccounts, context: AccountsContext): void {
  if (chain.isOpen) return
  chain.isOpen = true
  for (const account of chain.busy) cover(state, account, context)
}
