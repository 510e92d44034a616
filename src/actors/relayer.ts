/**
 * The relayer of one chain: does for users what they signed, and pays for it. It decides; what reads
 * and writes the chain and the database is handed in, and comes back as messages.
 *
 * The way of an operation, each step a piece of outside work:
 *
 *     find → examine → try → open → send → follow → end
 *
 * - find: whether the same request was here before, and what its owner has spent today;
 * - examine: the signature and the state of the chain; costs nobody anything;
 * - try: the call is simulated from the key that would send it, which tells its gas;
 * - open: a row in the database, before anything is signed: from here on it is never done twice;
 * - send: signed, journalled and broadcast; now whoever asked is answered with the hash;
 * - follow: until the chain has decided, across restarts and reorgs.
 *
 * A contract numbers what one owner signs, so operations of one owner at one contract go one after
 * the other: the next is examined when the one before is in a block. Others pass by. The same request
 * again joins the one that is under way, or is answered from its row.
 *
 * A refusal before `open` leaves no trace. After it the row tells: a row that was opened and not sent
 * is failed, and a failed one may be asked for again. Every end is written before it is acknowledged
 * to the sender, so after a kill at any instant it is told again.
 */

import type { Address } from '#domain/ids.ts'
import { RELAY_OWNERS_KNOWN_MAX, RELAY_TICKETS_MAX, RELAYS_UNDERWAY_MAX } from '#domain/limits.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { Claim, RelayKey, RelayKind, RelayOperation, RelayRecord } from '#domain/relay.ts'
import type { Behaviour, Context, Deferred } from '#runtime/actor.ts'
import type { OpenedRelay, RelayChange } from '#store/writes/relays.ts'

export type RelayAnswer = {
  readonly txHash: string
  readonly status: 'pending' | 'confirmed'
}

/** What one needs to sign: decimal text. */
export type RelayNonces = {
  readonly conditionalTokens: string
  readonly stablecoin: string
  readonly market?: string
  /** The bond of a proposal in that market. */
  readonly bond?: string
}

/** What examining an operation found, if nothing speaks against it. */
export type Examination = {
  readonly claims: readonly Claim[]
  /** The transaction that did it already, where it needs no other. */
  readonly doneBy?: string
  /** Whether the relayer's own stablecoin goes into it. */
  readonly ownBond: boolean
}

/** A call that would succeed now, and the key that would send it. */
export type Trial = {
  readonly lane: Address
  readonly to: Address
  readonly data: string
  /** Its gas limit. */
  readonly gas: number
}

export type SentRelay = { readonly txHash: string; readonly nonce: number }

/** A transaction of ours that is still open in the sender's journal. */
export type OpenTransaction = {
  readonly lane: Address
  readonly nonce: number
  readonly reference: string
  readonly txHash: string
}

export type RelayNews = OpenTransaction &
  (
    | { readonly type: 'replaced' | 'vanished' }
    | { readonly type: 'mined'; readonly gasUsed: number }
    | {
        readonly type: 'finished'
        readonly outcome: 'succeeded' | 'reverted' | 'cancelled' | 'lost'
        readonly gasUsed: number | null
      }
  )

/** The outside, as the worker hands it in. Each throws a fault when it cannot. */
export type RelayerPorts = {
  readonly recover: () => Promise<readonly OpenTransaction[]>
  readonly unfinished: () => Promise<readonly RelayRecord[]>
  readonly gasSince: (sinceMs: number) => Promise<number>
  readonly find: (
    key: RelayKey,
    owner: Address,
    sinceMs: number,
  ) => Promise<{ readonly record: RelayRecord | undefined; readonly gas: number }>
  readonly examine: (operation: RelayOperation) => Promise<Examination | Rejection>
  /** The lanes are in the order of preference. */
  readonly attempt: (
    operation: RelayOperation,
    examination: Examination,
    lanes: readonly Address[],
  ) => Promise<Trial | Rejection>
  readonly open: (
    relay: OpenedRelay,
  ) => Promise<{ readonly record: RelayRecord; readonly opened: boolean }>
  readonly change: (change: RelayChange) => Promise<boolean>
  readonly send: (trial: Trial, reference: string) => Promise<SentRelay>
  readonly poll: (lane: Address) => Promise<readonly RelayNews[]>
  readonly acknowledge: (lane: Address, nonce: number) => Promise<void>
  readonly nonces: (
    owner: Address,
    marketAddress: Address | undefined,
  ) => Promise<RelayNonces | Rejection>
  /** What each key has left, in wei as decimal text. */
  readonly balances: () => Promise<readonly { readonly lane: Address; readonly wei: string }[]>
}

type Work = { readonly key: RelayKey }

export type RelayerProtocol = {
  Relay: {
    takes: { key: RelayKey; operation: RelayOperation; deadlineAtMs: number }
    answers: RelayAnswer | Rejection
  }
  Nonces: {
    takes: { owner: Address; marketAddress: Address | undefined }
    answers: RelayNonces | Rejection
  }
  Begin: { takes: Record<never, never>; answers: undefined }
  Begun: {
    takes: {
      open: readonly OpenTransaction[]
      unfinished: readonly RelayRecord[]
      gasToday: number
    }
    answers: undefined
  }
  Found: {
    takes: Work & { record: RelayRecord | undefined; gas: number }
    answers: undefined
  }
  Examined: { takes: Work & { found: Examination | Rejection }; answers: undefined }
  Tried: { takes: Work & { trial: Trial | Rejection }; answers: undefined }
  Opened: { takes: Work & { record: RelayRecord; opened: boolean }; answers: undefined }
  Sent: { takes: Work & { sent: SentRelay }; answers: undefined }
  /** A step of an operation failed outside. */
  Failed: { takes: Work & { step: Step; trouble: Trouble }; answers: undefined }
  Poll: { takes: { lane: Address; turn: number }; answers: undefined }
  Told: { takes: { lane: Address; news: readonly RelayNews[] }; answers: undefined }
  Unheard: { takes: { lane: Address; trouble: Trouble }; answers: undefined }
  /** Writes what has become of an operation; again and again until it is written, or outdated. */
  Write: { takes: Writing; answers: undefined }
  Written: { takes: Writing; answers: undefined }
  Unwritten: { takes: Writing & { trouble: Trouble }; answers: undefined }
  Weigh: { takes: Record<never, never>; answers: undefined }
  Weighed: { takes: { balances: readonly { lane: Address; wei: string }[] }; answers: undefined }
  NoncesRead: { takes: { ticket: Deferred; answer: RelayNonces | Rejection }; answers: undefined }
  /** Outside work that nobody waits for has failed. */
  Missed: {
    takes: { what: string; trouble: Trouble; again: 'Begin' | 'Weigh' }
    answers: undefined
  }
}

type Writing = {
  readonly change: RelayChange
  /** Which change of the operation this is; 0 for one that nobody follows. */
  readonly turn: number
  /** What the sender may forget once it is written. */
  readonly transaction?: { readonly lane: Address; readonly nonce: number }
}

type Step = 'find' | 'examine' | 'try' | 'open' | 'send'

/** A fault, as far as it can be told further. */
type Trouble = { readonly code: string; readonly message: string; readonly retryable: boolean }

export type RelayerEvent =
  | { readonly type: 'refused'; readonly kind: RelayKind; readonly rejection: Rejection }
  | { readonly type: 'repeated'; readonly kind: RelayKind }
  | {
      readonly type: 'sent'
      readonly kind: RelayKind
      readonly lane: Address
      readonly txHash: string
      readonly tookMs: number
    }
  | {
      readonly type: 'ended'
      readonly key: RelayKey
      readonly kind: RelayKind | undefined
      readonly status: 'confirmed' | 'failed'
      readonly gas: number
      readonly reason: string
    }
  | {
      readonly type: 'weighed'
      readonly lane: Address
      readonly wei: bigint
      readonly isLow: boolean
    }
  | { readonly type: 'trouble'; readonly where: string; readonly trouble: Trouble }

export type RelayerRules = {
  readonly chainId: number
  /** What an owner may ask for, when rates are limited. */
  readonly ownerRate: { readonly perMinute: number; readonly burst: number } | undefined
  readonly ownerGasPerDay: number
  readonly gasPerDay: number
  /** A key with less is used no more. */
  readonly balanceMin: bigint
  /** A key with less is warned about. */
  readonly balanceLow: bigint
  /** A key whose oldest transaction waits for so long is used only when there is no other. */
  readonly stuckAfterMs: number
  readonly pollMs: number
  readonly idlePollMs: number
  readonly weighMs: number
}

type Underway = {
  readonly key: RelayKey
  /** Undefined for one that a process before this one sent. */
  readonly operation: RelayOperation | undefined
  readonly scope: string
  readonly beganAtMs: number
  tickets: Deferred[]
  deadlineAtMs: number
  stage: 'waiting' | Step | 'follow'
  attempt: number
  gas: number
  examination: Examination | undefined
  trial: Trial | undefined
  lane: Address | undefined
  nonce: number
  txHash: string
  isMined: boolean
  /** Counts its changes: an older one that could not be written is not tried again. */
  turn: number
}

type Lane = {
  readonly address: Address
  /** Undefined until it was asked for. */
  balance: bigint | undefined
  isLow: boolean
  /** References of what is not in a block yet, and since when. */
  readonly waiting: Map<string, number>
  /** What was sent and has not ended. */
  readonly open: Set<string>
  isPolling: boolean
  /** Counts what was planned, so that only the last plan is carried out. */
  turn: number
}

type Owner = { fullAtMs: number; gas: number; day: number }

export type RelayerState = {
  readonly rules: RelayerRules
  readonly ports: RelayerPorts
  readonly lanes: ReadonlyMap<Address, Lane>
  readonly underway: Map<RelayKey, Underway>
  /** Who uses an owner's nonces at a contract now, and who waits behind, in order. */
  readonly scopes: Map<string, RelayKey[]>
  readonly owners: Map<Address, Owner>
  day: number
  gasToday: number
  /** Why nothing is taken yet; empty once it has begun. */
  closedFor: string
}

const DAY_MS = 86_400_000
const AGAIN_MS = 1_000
const SUBMITTED_AFTER_MS = 500
const BOND_SCOPE = 'bond'

export function newRelayer(
  rules: RelayerRules,
  ports: RelayerPorts,
  lanes: readonly Address[],
): RelayerState {
  return {
    rules,
    ports,
    lanes: new Map(
      lanes.map((address) => [
        address,
        {
          address,
          balance: undefined,
          isLow: false,
          waiting: new Map(),
          open: new Set(),
          isPolling: false,
          turn: 0,
        },
      ]),
    ),
    underway: new Map(),
    scopes: new Map(),
    owners: new Map(),
    day: 0,
    gasToday: 0,
    closedFor: 'the relayer is starting',
  }
}

type RelayerContext = Context<RelayerProtocol, RelayerEvent>

export const relayer: Behaviour<RelayerState, RelayerProtocol, RelayerEvent> = {
  Relay(state, { key, operation, deadlineAtMs }, context) {
    const { kind } = operation
    const known = state.underway.get(key)
    if (known !== undefined) {
      context.emit({ type: 'repeated', kind })
      if (known.stage === 'follow') return answerOf(known)
      if (known.tickets.length >= RELAY_TICKETS_MAX) return reject('OVERLOADED')
      const ticket = context.defer()
      known.tickets.push(ticket)
      known.deadlineAtMs = Math.max(known.deadlineAtMs, deadlineAtMs)
      return ticket
    }
    if (state.closedFor !== '') return reject('RELAYER_UNAVAILABLE', undefined, state.closedFor)
    if (state.underway.size >= RELAYS_UNDERWAY_MAX) return reject('OVERLOADED')
    const ticket = context.defer()
    const scope = scopeOf(operation)
    const one: Underway = {
      key,
      operation,
      scope,
      beganAtMs: context.nowMs,
      tickets: [ticket],
      deadlineAtMs,
      stage: 'waiting',
      attempt: 0,
      gas: 0,
      examination: undefined,
      trial: undefined,
      lane: undefined,
      nonce: 0,
      txHash: '',
      isMined: false,
      turn: 0,
    }
    state.underway.set(key, one)
    const queue = state.scopes.get(scope) ?? []
    queue.push(key)
    state.scopes.set(scope, queue)
    if (queue.length === 1) find(state, one, context)
    return ticket
  },

  Nonces(state, { owner, marketAddress }, context) {
    if (state.closedFor !== '') return reject('RELAYER_UNAVAILABLE', undefined, state.closedFor)
    const ticket = context.defer()
    context.pipe(
      state.ports.nonces(owner, marketAddress),
      (answer) => ({ type: 'NoncesRead', message: { ticket, answer } }),
      (error) => ({
        type: 'NoncesRead',
        message: { ticket, answer: rejectionOf(troubleOf(error)) },
      }),
    )
    return ticket
  },

  NoncesRead(_state, { ticket, answer }, context) {
    context.answer(ticket, answer)
    return undefined
  },

  Begin(state, _message, context) {
    const { ports } = state
    context.pipe(
      Promise.all([ports.recover(), ports.unfinished(), ports.gasSince(dayStart(context.nowMs))]),
      ([open, unfinished, gasToday]) => ({
        type: 'Begun',
        message: { open, unfinished, gasToday },
      }),
      (error) => missed('Begin', 'what was under way could not be read', error),
    )
    return undefined
  },

  Begun(state, { open, unfinished, gasToday }, context) {
    state.day = dayOf(context.nowMs)
    state.gasToday = gasToday
    for (const transaction of open) adopt(state, transaction, context.nowMs)
    for (const { key, attempt } of unfinished) {
      if (state.underway.has(key)) continue
      // The journal is written before anything leaves: what it does not have was never sent.
      const change = changeOf(key, attempt, 'failed', context, { reason: NEVER_SENT })
      write(state, { change, turn: 0 }, context)
    }
    state.closedFor = ''
    for (const { address } of state.lanes.values()) pollLane(state, address, context)
    weigh(state, context)
    return undefined
  },

  Found(state, { key, record, gas }, context) {
    const one = state.underway.get(key)
    if (one?.operation === undefined) return undefined
    const { operation } = one
    const owner = ownerOf(state, operation.owner, context.nowMs)
    owner.gas = Math.max(owner.gas, gas)
    if (record !== undefined && record.status !== 'failed' && record.txHash !== '') {
      context.emit({ type: 'repeated', kind: operation.kind })
      const status = record.status === 'confirmed' ? 'confirmed' : 'pending'
      leave(state, one, { txHash: record.txHash, status }, context)
      return undefined
    }
    if (record?.status === 'sending') {
      // Somebody's answer from the database was lost. It is not under way here, so it was not sent.
      one.stage = 'open'
      const change = changeOf(key, record.attempt, 'failed', context, { reason: NEVER_SENT })
      step(state, one, 'open', state.ports.change(change), context, () => ({
        type: 'Found',
        message: { key, record: { ...record, status: 'failed' }, gas },
      }))
      return undefined
    }
    one.stage = 'examine'
    step(state, one, 'examine', state.ports.examine(operation), context, (found) => ({
      type: 'Examined',
      message: { key, found },
    }))
    return undefined
  },

  Examined(state, { key, found }, context) {
    const one = state.underway.get(key)
    if (one?.operation === undefined) return undefined
    if (isRejection(found)) return refuse(state, one, found, context)
    if (found.doneBy !== undefined) {
      leave(state, one, { txHash: found.doneBy, status: 'confirmed' }, context)
      return undefined
    }
    // The signature is the owner's: only now does it count against him.
    const limited = drawFor(state, one.operation.owner, context.nowMs)
    if (limited !== undefined) return refuse(state, one, limited, context)
    const lanes = lanesByPreference(state, context.nowMs)
    if (lanes.length === 0) return refuse(state, one, unfunded(state), context)
    one.examination = found
    one.stage = 'try'
    step(state, one, 'try', state.ports.attempt(one.operation, found, lanes), context, (trial) => ({
      type: 'Tried',
      message: { key, trial },
    }))
    return undefined
  },

  Tried(state, { key, trial }, context) {
    const one = state.underway.get(key)
    if (one?.operation === undefined) return undefined
    if (isRejection(trial)) return refuse(state, one, trial, context)
    const { operation, examination } = one
    const overspent = budgetFlaw(state, operation.owner, trial.gas, context.nowMs)
    if (overspent !== undefined) return refuse(state, one, overspent, context)
    spend(state, operation.owner, trial.gas, context.nowMs)
    one.trial = trial
    one.gas = trial.gas
    one.stage = 'open'
    const { chainId, kind, owner } = operation
    const claims = examination?.claims ?? []
    const opened = { key, chainId, kind, owner, gas: trial.gas, claims, atMs: context.nowMs }
    step(state, one, 'open', state.ports.open(opened), context, ({ record, opened: isNew }) => ({
      type: 'Opened',
      message: { key, record, opened: isNew },
    }))
    return undefined
  },

  Opened(state, { key, record, opened }, context) {
    const one = state.underway.get(key)
    if (one?.operation === undefined || one.trial === undefined) return undefined
    if (!opened) {
      // Only this thread opens rows of its chain, so it is there because an answer was lost.
      const wanted = record.txHash === '' ? reject('OUTCOME_UNKNOWN') : answerOf(record)
      leave(state, one, wanted, context)
      return undefined
    }
    const { trial } = one
    one.attempt = record.attempt
    one.gas = record.gas
    one.stage = 'send'
    one.lane = trial.lane
    const reference = referenceOf(one)
    const lane = state.lanes.get(trial.lane)
    lane?.waiting.set(reference, context.nowMs)
    lane?.open.add(reference)
    step(state, one, 'send', state.ports.send(trial, reference), context, (sent) => ({
      type: 'Sent',
      message: { key, sent },
    }))
    return undefined
  },

  Sent(state, { key, sent }, context) {
    const one = state.underway.get(key)
    if (one?.operation === undefined || one.lane === undefined) return undefined
    one.stage = 'follow'
    one.txHash = sent.txHash
    one.nonce = sent.nonce
    const { kind } = one.operation
    const tookMs = context.nowMs - one.beganAtMs
    context.emit({ type: 'sent', kind, lane: one.lane, txHash: sent.txHash, tookMs })
    for (const ticket of one.tickets.splice(0)) context.answer(ticket, answerOf(one))
    // The journal knows its hash. Where nobody lists it, its row can wait for news: most are mined
    // at once, and then one write says all.
    if ((one.examination?.claims.length ?? 0) > 0) submitted(state, one, context)
    else context.after(SUBMITTED_AFTER_MS, { type: 'Write', message: submission(one, context) })
    pollLane(state, one.lane, context)
    return undefined
  },

  Failed(state, { key, step: at, trouble }, context) {
    context.emit({ type: 'trouble', where: at, trouble })
    const one = state.underway.get(key)
    if (one === undefined) return undefined
    const gas = one.trial?.gas ?? 0
    if (one.operation !== undefined) spend(state, one.operation.owner, -gas, context.nowMs)
    if (at === 'send') {
      // What throws has not left the process.
      const lane = one.lane === undefined ? undefined : state.lanes.get(one.lane)
      lane?.waiting.delete(referenceOf(one))
      lane?.open.delete(referenceOf(one))
      const reason = `${NEVER_SENT}: ${trouble.message}`
      const rest = { reason, gas: one.gas - gas }
      write(
        state,
        { change: changeOf(key, one.attempt, 'failed', context, rest), turn: 0 },
        context,
      )
    }
    return refuse(state, one, rejectionOf(trouble), context)
  },

  Poll(state, { lane, turn }, context) {
    if (state.lanes.get(lane)?.turn === turn) pollLane(state, lane, context)
    return undefined
  },

  Told(state, { lane, news }, context) {
    polled(state, lane, context)
    for (const one of news) hear(state, one, context)
    return undefined
  },

  Unheard(state, { lane, trouble }, context) {
    polled(state, lane, context)
    context.emit({ type: 'trouble', where: 'poll', trouble })
    return undefined
  },

  Write(state, writing, context) {
    const { change, turn } = writing
    // A newer change has been written, or is about to be.
    if (turn !== 0 && state.underway.get(change.key)?.turn !== turn) return undefined
    write(state, writing, context)
    return undefined
  },

  Written(state, { change, transaction }, context) {
    const one = state.underway.get(change.key)
    if (transaction === undefined || one?.attempt !== change.attempt) return undefined
    const lane = state.lanes.get(transaction.lane)
    lane?.open.delete(referenceOf(one))
    lane?.waiting.delete(referenceOf(one))
    state.underway.delete(one.key)
    pass(state, one, context)
    return undefined
  },

  Unwritten(_state, { trouble, ...writing }, context) {
    context.emit({ type: 'trouble', where: 'write', trouble })
    context.after(AGAIN_MS, { type: 'Write', message: writing })
    return undefined
  },

  Weigh(state, _message, context) {
    weigh(state, context)
    return undefined
  },

  Weighed(state, { balances }, context) {
    for (const { lane: address, wei } of balances) {
      const lane = state.lanes.get(address)
      if (lane === undefined) continue
      lane.balance = BigInt(wei)
      lane.isLow = lane.balance < state.rules.balanceLow
      context.emit({ type: 'weighed', lane: address, wei: lane.balance, isLow: lane.isLow })
    }
    context.after(state.rules.weighMs, { type: 'Weigh', message: {} })
    return undefined
  },

  Missed(_state, { what, trouble, again }, context) {
    context.emit({ type: 'trouble', where: what, trouble })
    context.after(AGAIN_MS, { type: again, message: {} })
    return undefined
  },
}

const NEVER_SENT = 'it was not sent'

function find(state: RelayerState, one: Underway, context: RelayerContext): void {
  const { key, operation } = one
  if (operation === undefined) return
  one.stage = 'find'
  const since = dayStart(context.nowMs)
  step(state, one, 'find', state.ports.find(key, operation.owner, since), context, (found) => ({
    type: 'Found',
    message: { key, ...found },
  }))
}

/** Outside work of one operation: its failure comes back with the name of the step. */
function step<T>(
  _state: RelayerState,
  { key }: Underway,
  at: Step,
  work: Promise<T>,
  context: RelayerContext,
  ok: Parameters<typeof context.pipe<T>>[1],
): void {
  context.pipe(work, ok, (error) => ({
    type: 'Failed',
    message: { key, step: at, trouble: troubleOf(error) },
  }))
}

function refuse(
  state: RelayerState,
  one: Underway,
  rejection: Rejection,
  context: RelayerContext,
): undefined {
  if (one.operation !== undefined) {
    context.emit({ type: 'refused', kind: one.operation.kind, rejection })
  }
  leave(state, one, rejection, context)
  return undefined
}

/** Ends an operation that is not to be followed, and lets the next of its owner begin. */
function leave(
  state: RelayerState,
  one: Underway,
  answer: RelayAnswer | Rejection,
  context: RelayerContext,
): void {
  for (const ticket of one.tickets.splice(0)) context.answer(ticket, answer)
  state.underway.delete(one.key)
  pass(state, one, context)
}

/** Hands the owner's nonces on; who is not waited for any more is not begun. */
function pass(state: RelayerState, one: Underway, context: RelayerContext): void {
  const queue = state.scopes.get(one.scope)
  if (queue === undefined || queue[0] !== one.key) return
  queue.shift()
  for (let next = queue[0]; next !== undefined; next = queue[0]) {
    const waiting = state.underway.get(next)
    if (waiting !== undefined && waiting.deadlineAtMs > context.nowMs) {
      find(state, waiting, context)
      return
    }
    queue.shift()
    if (waiting === undefined) continue
    for (const ticket of waiting.tickets.splice(0)) context.answer(ticket, reject('OVERLOADED'))
    state.underway.delete(next)
  }
  state.scopes.delete(one.scope)
}

/** A transaction that a process before this one sent. */
function adopt(state: RelayerState, transaction: OpenTransaction, nowMs: number): Underway {
  const { lane: address, nonce, reference, txHash } = transaction
  const { key, attempt } = readReference(reference)
  const known = state.underway.get(key)
  if (known !== undefined) return known
  const one: Underway = {
    key,
    operation: undefined,
    scope: '',
    beganAtMs: nowMs,
    tickets: [],
    deadlineAtMs: 0,
    stage: 'follow',
    attempt,
    gas: 0,
    examination: undefined,
    trial: undefined,
    lane: address,
    nonce,
    txHash,
    isMined: false,
    turn: 0,
  }
  state.underway.set(key, one)
  const lane = state.lanes.get(address)
  lane?.open.add(reference)
  lane?.waiting.set(reference, nowMs)
  return one
}

function hear(state: RelayerState, news: RelayNews, context: RelayerContext): void {
  const one = adopt(state, news, context.nowMs)
  const transaction = { lane: news.lane, nonce: news.nonce }
  const { key, attempt } = readReference(news.reference)
  if (attempt !== one.attempt || one.stage !== 'follow') {
    // An attempt that was given up went through after all: its row takes the change if no other
    // attempt has followed it, and the sender may forget it either way.
    if (news.type !== 'finished') return
    const change = changeOf(key, attempt, endOf(news), context, { txHash: news.txHash })
    write(state, { change, turn: 0, transaction }, context)
    return
  }
  const lane = state.lanes.get(news.lane)
  one.txHash = news.txHash
  switch (news.type) {
    case 'replaced':
    case 'vanished':
      one.isMined = false
      lane?.open.add(news.reference)
      lane?.waiting.set(news.reference, context.nowMs)
      submitted(state, one, context)
      return
    case 'mined':
      mined(state, one, news.gasUsed, context)
      return
    case 'finished': {
      mined(state, one, news.gasUsed, context)
      const status = endOf(news)
      const reason = REASONS[news.outcome]
      const { gas, txHash } = one
      context.emit({ type: 'ended', key, kind: one.operation?.kind, status, gas, reason })
      const known = news.gasUsed === null ? {} : { gas }
      const change = changeOf(key, attempt, status, context, { txHash, reason, ...known })
      write(state, { change, turn: ++one.turn, transaction }, context)
    }
  }
}

const REASONS = {
  succeeded: '',
  reverted: 'the transaction reverted',
  cancelled: 'no block took the transaction for too long, and it was given up',
  lost: 'another transaction took its place',
}

function endOf({ outcome }: Extract<RelayNews, { type: 'finished' }>): 'confirmed' | 'failed' {
  return outcome === 'succeeded' ? 'confirmed' : 'failed'
}

function submitted(state: RelayerState, one: Underway, context: RelayerContext): void {
  write(state, submission(one, context), context)
}

function submission(one: Underway, context: RelayerContext): Writing {
  const { key, attempt, txHash } = one
  return { change: changeOf(key, attempt, 'submitted', context, { txHash }), turn: ++one.turn }
}

/** It is in a block: the owner's next operation can be examined against it. */
function mined(
  state: RelayerState,
  one: Underway,
  gasUsed: number | null,
  context: RelayerContext,
): void {
  const lane = one.lane === undefined ? undefined : state.lanes.get(one.lane)
  lane?.waiting.delete(referenceOf(one))
  if (one.isMined) return
  one.isMined = true
  if (gasUsed !== null && one.operation !== undefined && one.trial !== undefined) {
    const saved = one.trial.gas - gasUsed
    spend(state, one.operation.owner, -saved, context.nowMs)
    one.gas -= saved
  } else if (gasUsed !== null) one.gas = gasUsed
  pass(state, one, context)
}

function write(state: RelayerState, writing: Writing, context: RelayerContext): void {
  const { change, transaction } = writing
  const { ports } = state
  const written = ports.change(change)
  const work =
    transaction === undefined
      ? written
      : written.then(() => ports.acknowledge(transaction.lane, transaction.nonce))
  context.pipe<unknown>(
    work,
    () => ({ type: 'Written', message: writing }),
    (error) => ({ type: 'Unwritten', message: { ...writing, trouble: troubleOf(error) } }),
  )
}

function pollLane(state: RelayerState, address: Address, context: RelayerContext): void {
  const lane = state.lanes.get(address)
  if (lane === undefined || lane.isPolling) return
  lane.isPolling = true
  lane.turn++
  context.pipe(
    state.ports.poll(address),
    (news) => ({ type: 'Told', message: { lane: address, news } }),
    (error) => ({ type: 'Unheard', message: { lane: address, trouble: troubleOf(error) } }),
  )
}

function polled(state: RelayerState, address: Address, context: RelayerContext): void {
  const lane = state.lanes.get(address)
  if (lane === undefined) return
  lane.isPolling = false
  const { pollMs, idlePollMs } = state.rules
  const turn = ++lane.turn
  const delayMs = lane.open.size > 0 ? pollMs : idlePollMs
  context.after(delayMs, { type: 'Poll', message: { lane: address, turn } })
}

function weigh(state: RelayerState, context: RelayerContext): void {
  context.pipe(
    state.ports.balances(),
    (balances) => ({ type: 'Weighed', message: { balances } }),
    (error) => missed('Weigh', 'the balances could not be read', error),
  )
}

function missed(again: 'Begin' | 'Weigh', what: string, error: unknown) {
  return { type: 'Missed', message: { what, trouble: troubleOf(error), again } } as const
}

/** The keys that can pay, those first that have the least to wait for. */
function lanesByPreference(state: RelayerState, nowMs: number): Address[] {
  const { balanceMin, stuckAfterMs } = state.rules
  const isStuck = ({ waiting }: Lane): number => {
    const [oldest] = waiting.values()
    return oldest !== undefined && nowMs - oldest >= stuckAfterMs ? 1 : 0
  }
  return [...state.lanes.values()]
    .filter(({ balance }) => balance === undefined || balance >= balanceMin)
    .sort((a, b) => isStuck(a) - isStuck(b) || a.open.size - b.open.size)
    .map(({ address }) => address)
}

function unfunded(state: RelayerState): Rejection {
  const { chainId } = state.rules
  const detail = `the relayer of chain ${chainId} has run out of money for gas`
  return reject('RELAYER_UNAVAILABLE', undefined, detail)
}

/** What is known of an owner today. Who has nothing under way is forgotten when it gets crowded. */
function ownerOf(state: RelayerState, address: Address, nowMs: number): Owner {
  const day = dayOf(nowMs)
  if (day !== state.day) {
    state.day = day
    state.gasToday = 0
  }
  let owner = state.owners.get(address)
  if (owner === undefined) {
    if (state.owners.size >= RELAY_OWNERS_KNOWN_MAX) {
      const [oldest] = state.owners.keys()
      if (oldest !== undefined) state.owners.delete(oldest)
    }
    owner = { fullAtMs: 0, gas: 0, day }
    state.owners.set(address, owner)
  }
  if (owner.day !== day) {
    owner.day = day
    owner.gas = 0
  }
  return owner
}

/** A bucket is one number: the time at which it will be full again. */
function drawFor(state: RelayerState, address: Address, nowMs: number): Rejection | undefined {
  const { ownerRate } = state.rules
  if (ownerRate === undefined) return undefined
  const owner = ownerOf(state, address, nowMs)
  const unitMs = 60_000 / ownerRate.perMinute
  const afterMs = Math.max(owner.fullAtMs, nowMs) + unitMs
  if (afterMs - nowMs > ownerRate.burst * unitMs) {
    const detail = `too many operations of this owner: ${ownerRate.perMinute} a minute are relayed`
    return reject('RATE_LIMITED', undefined, detail)
  }
  owner.fullAtMs = afterMs
  return undefined
}

function budgetFlaw(
  state: RelayerState,
  address: Address,
  gas: number,
  nowMs: number,
): Rejection | undefined {
  const { ownerGasPerDay, gasPerDay } = state.rules
  const owner = ownerOf(state, address, nowMs)
  if (owner.gas + gas > ownerGasPerDay) {
    const detail = `the gas that is relayed for this owner in a day (${ownerGasPerDay}) is spent: it starts anew at midnight, UTC`
    return reject('RATE_LIMITED', undefined, detail)
  }
  if (state.gasToday + gas > gasPerDay) {
    const detail = "the relayer's gas for today is spent: it starts anew at midnight, UTC"
    return reject('RELAYER_UNAVAILABLE', undefined, detail)
  }
  return undefined
}

function spend(state: RelayerState, address: Address, gas: number, nowMs: number): void {
  const owner = ownerOf(state, address, nowMs)
  owner.gas = Math.max(0, owner.gas + gas)
  state.gasToday = Math.max(0, state.gasToday + gas)
}

/** Whose nonces an operation uses: only one at a time may. */
function scopeOf(operation: RelayOperation): string {
  const { kind, owner } = operation
  if (kind === 'propose-resolution' || kind === 'settle-market') {
    // The relayer's own permits are numbered too.
    const ownBond = kind === 'propose-resolution' && operation.bond === undefined
    return ownBond ? BOND_SCOPE : `${operation.marketAddress} ${owner}`
  }
  if (kind === 'cancel-orders' || kind === 'cancel-all-before') return `settlement ${owner}`
  return `${kind === 'stablecoin-permit' ? 'stablecoin' : 'tokens'} ${owner}`
}

function answerOf(one: { readonly txHash: string; readonly status?: string }): RelayAnswer {
  return { txHash: one.txHash, status: one.status === 'confirmed' ? 'confirmed' : 'pending' }
}

function referenceOf({
  key,
  attempt,
}: {
  readonly key: RelayKey
  readonly attempt: number
}): string {
  return `${key}:${attempt}`
}

function readReference(reference: string): { key: RelayKey; attempt: number } {
  const [key, attempt] = reference.split(':')
  return { key: key as RelayKey, attempt: Number(attempt) }
}

function changeOf(
  key: RelayKey,
  attempt: number,
  status: RelayChange['status'],
  context: RelayerContext,
  rest: Partial<Pick<RelayChange, 'txHash' | 'gas' | 'reason'>>,
): RelayChange {
  return { key, attempt, status, txHash: '', gas: null, reason: '', atMs: context.nowMs, ...rest }
}

function rejectionOf({ code, retryable }: Trouble): Rejection {
  if (code.startsWith('CHAIN_')) return reject('CHAIN_UNAVAILABLE')
  return reject(retryable ? 'OVERLOADED' : 'INTERNAL')
}

function troubleOf(error: unknown): Trouble {
  const { code, message, retryable } = error as Partial<Trouble>
  return {
    code: typeof code === 'string' ? code : 'BUG',
    message: typeof message === 'string' ? message : String(error),
    retryable: retryable === true,
  }
}

function dayOf(nowMs: number): number {
  return Math.floor(nowMs / DAY_MS)
}

function dayStart(nowMs: number): number {
  return dayOf(nowMs) * DAY_MS
}
