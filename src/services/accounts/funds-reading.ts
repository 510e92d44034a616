/**
 * How the chain is asked: in steps, each up to a block; which owners are read at the block of the last step,
 * those first that an order waits for; and about which trades it is asked whether they are settled.
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
import { hearSettled, recountSettled, unsettleFrom } from './trades.ts'

/** Owners of one read, and reads under way at once, per chain. */
const OWNERS_READ_MAX = 100
const READS_MAX = 4
/** Trades of one question whether they are settled. */
const TRADES_ASKED_MAX = 200

const PAUSE_MS = 250
const PAUSE_MS_MAX = 5_000

/** Begins the next step, when it is due. */
export function step(chain: ChainAccounts, state: AccountsState, context: AccountsContext): void {
  const begunAtMs = context.nowMs
  if (chain.stepping || begunAtMs < chain.nextStepMs) return
  chain.stepping = true
  chain.nextStepMs = begunAtMs + state.rules.stepEveryMs
  chain.unseen.clear()
  const { chainId } = chain
  context.pipe(
    chain.port.step(chain.watched),
    (told) => ({ type: 'Stepped', message: { chainId, step: told, begunAtMs } }),
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

/** What a step tells. Its owners' funds are of its block from now on, or are read there again. */
export function hearStep(
  state: AccountsState,
  chain: ChainAccounts,
  told: FundsStep,
  nowMs: number,
): void {
  chain.stepping = false
  chain.failures = 0
  chain.trouble = ''
  const isFirst = chain.place === undefined
  chain.place = { block: told.block, blockHash: told.blockHash }
  if (told.rewoundTo !== undefined) rewind(state, chain, told.rewoundTo)
  for (const settled of told.settled) {
    hearSettled(state, chain, { ...settled, heardAtMs: nowMs })
  }
  for (const owner of told.touched) {
    const account = chain.accounts.get(owner)
    if (account !== undefined) outdate(account, told.block)
  }
  for (const account of chain.unseen) outdate(account, told.block)
  chain.unseen.clear()
  if (isFirst) {
    for (const account of chain.busy) outdate(account, told.block)
  }
}

/** What is known of the account is not believed any more. */
function outdate(account: Account, block: number): void {
  account.wantBlock = Math.max(account.wantBlock, block)
  if (account.uses === 0) forget(account)
  else account.chain.toRead.add(account)
}

/** Blocks from this one on were replaced by others. */
function rewind(state: AccountsState, chain: ChainAccounts, block: number): void {
  const place = chain.place!
  chain.epoch++
  chain.isOpen = false
  chain.asking = []
  chain.isAsking = false
  // What has settled since the last step is not known: it is as if this one were the first.
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

/** Reads a part of the owners with something open again, so that all have had their turn in time. */
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

/** Asks for as many owners as may be asked for at once. */
export function readNext(chain: ChainAccounts, context: AccountsContext): void {
  const { place, chainId, epoch } = chain
  if (place === undefined) return
  while (chain.reads < READS_MAX) {
    const accounts: Account[] = []
    for (const queue of [chain.asked, chain.toRead]) {
      for (const account of queue) {
        if (accounts.length === OWNERS_READ_MAX) break
        // One that is being read is read once more behind that, if it has to be.
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
    // The oldest of those that nothing needs make way.
    if (isIdle(holding) && idle-- > IDLE_TOKENS_MAX) holdings.delete(holding.token)
    else tokens.push(holding.token)
  }
  return { owner: trader, tokens }
}

function isIdle({ open, pending, promised }: Sums): boolean {
  return open === 0n && pending === 0n && promised === 0n
}

/** Takes what the chain says of an owner. One read of him is under way at a time, so it is the newest. */
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

/** Whether something of the account has still to be read. */
export function isUnread({ block, wantBlock, holdings, sales }: Account): boolean {
  if (block < wantBlock) return true
  if (sales === 0) return false
  for (const { held, openMin } of holdings.values()) {
    if (held === undefined && openMin > 0n) return true
  }
  return false
}

/**
 * A trade that settled before the first step was matched before it: its match has been read once the logs
 * have been read to an end that was there after that step. Then all are asked about that no step has told.
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

/** Whether it is settled has to be known before an order is judged. */
export function doubt(chain: ChainAccounts, need: TradeNeed): void {
  chain.toAsk.add(need)
  if (!chain.hasAskedAll) return
  chain.isOpen = false
  chain.asking.push(need)
}

/** Asks about trades whose settling no step has told, one part after the other, up to the end. */
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

/** All that had to be known of settled trades is known: accounts can be judged. */
function open(state: AccountsState, chain: ChainAccounts, context: AccountsContext): void {
  if (chain.isOpen) return
  chain.isOpen = true
  for (const account of chain.busy) cover(state, account, context)
}
