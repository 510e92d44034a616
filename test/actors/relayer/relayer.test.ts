/** The relayer's decisions, driven without a chain: the outside is a table that the test answers from. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RelayerPorts } from '#actors/relayer/ports.ts'
import { newRelayer, relayer } from '#actors/relayer/relayer.ts'
import type {
  RelayAnswer,
  RelayerEvent,
  RelayerProtocol,
  RelayerRules,
  RelayerState,
} from '#actors/relayer/state.ts'
import type { LaneNews, LaneTransaction } from '#chain/relay-lanes.ts'
import { Fault } from '#domain/fault.ts'
import type { Address, MarketId, Uint256 } from '#domain/ids.ts'
import { RELAYS_IN_LINE_MAX, RELAYS_UNREDEEMING_MAX } from '#domain/limits.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import {
  type CtfApproval,
  type CtfRedemption,
  type ProposeResolution,
  purposeOf,
  type RelayKey,
  type RelayOperation,
  type RelayRecord,
} from '#domain/relay.ts'
import { type Served, serve } from '#runtime/serve.ts'
import type { RelayChange } from '#store/writes/relays.ts'
import { type SimulatedClock, simulatedClock } from '../../support/simulated-clock.ts'

const NOON_MS = 1_800_014_400_000
const LANES = [`0x${'1'.repeat(40)}`, `0x${'2'.repeat(40)}`] as Address[]
const RULES: RelayerRules = {
  chainId: 1,
  ownerRate: undefined,
  gasPerDay: {
    redemption: { ownerGas: 1_000_000, allGas: 10_000_000 },
    other: { ownerGas: 1_000_000, allGas: 10_000_000 },
  },
  balanceMin: 10n,
  balanceLow: 100n,
  stuckAfterMs: 5_000,
  pollMs: 100,
  idlePollMs: 1_000,
  weighMs: 60_000,
}
const AWAY = new Fault('STORE_AWAY', 'the store did not answer', { retryable: true })

/** The outside: a database in memory, lanes that send at once, and news when the test has some. */
class World {
  readonly rows = new Map<RelayKey, RelayRecord>()
  readonly sent: { lane: Address; reference: string; nonce: number }[] = []
  readonly acknowledged: number[] = []
  readonly examined: RelayOperation[] = []
  readonly changes: RelayChange[] = []
  news: LaneNews[] = []
  open: LaneTransaction[] = []
  gas = 100_000
  balances = ['1000', '1000']
  fault: Partial<Record<keyof RelayerPorts, Error>> = {}
  verdict: Rejection | undefined
  /** The chain is as asked for already. */
  done: { doneBy?: string } = {}
  /** The work is done and its answer lost on the way back. */
  lostAfter: 'open' | undefined

  #may(port: keyof RelayerPorts): void {
    const fault = this.fault[port]
    if (fault !== undefined) throw fault
  }

  readonly ports: { -readonly [Port in keyof RelayerPorts]: RelayerPorts[Port] } = {
    recover: async () => this.open,
    unfinished: async () => [...this.rows.values()].filter(({ status }) => isUnfinished(status)),
    gasSince: async () => ({ redemption: 0, other: 0 }),
    find: async (key, { owner, kind }) => {
      this.#may('find')
      let gas = 0
      for (const row of this.rows.values()) {
        if (row.owner === owner && purposeOf(row.kind) === purposeOf(kind)) gas += row.gas
      }
      return { record: this.rows.get(key), gas }
    },
    examine: async (operation) => {
      this.#may('examine')
      this.examined.push(operation)
      return this.verdict ?? { claims: [], ownBond: false, ...this.done }
    },
    attempt: async (_operation, _examination, [lane]) => {
      this.#may('attempt')
      assert.ok(lane)
      return { lane, to: lane, data: '0x', gas: this.gas }
    },
    open: async (relay) => {
      this.#may('open')
      const { claims: _, atMs, ...rest } = relay
      const before = this.rows.get(relay.key)
      if (before !== undefined && before.status !== 'failed') {
        return { record: before, opened: false }
      }
      const attempt = (before?.attempt ?? 0) + 1
      const record: RelayRecord = {
        ...rest,
        ...{ status: 'sending', attempt, txHash: '', reason: '' },
        openedAtMs: atMs,
        updatedAtMs: atMs,
      }
      this.rows.set(relay.key, record)
      if (this.lostAfter === 'open') throw AWAY
      return { record, opened: true }
    },
    change: async (change) => {
      this.#may('change')
      this.changes.push(change)
      const row = this.rows.get(change.key)
      if (row?.attempt !== change.attempt) return false
      const { status, reason } = change
      const txHash = change.txHash === '' ? row.txHash : change.txHash
      this.rows.set(change.key, { ...row, status, reason, txHash, gas: change.gas ?? row.gas })
      return true
    },
    send: async ({ lane }, reference) => {
      this.#may('send')
      const nonce = this.sent.length
      this.sent.push({ lane, reference, nonce })
      return { txHash: hashOf(nonce), nonce }
    },
    poll: async (lane) => {
      this.#may('poll')
      const mine = this.news.filter((one) => one.lane === lane)
      this.news = this.news.filter((one) => one.lane !== lane)
      return mine
    },
    acknowledge: async (_lane, nonce) => {
      this.#may('acknowledge')
      this.acknowledged.push(nonce)
    },
    nonces: async () => ({ conditionalTokens: '0', stablecoin: '0' }),
    balances: async () => LANES.map((lane, at) => ({ lane, wei: this.balances[at] ?? '0' })),
  }

  /** The chain has taken what was sent as this one. */
  tell(nonce: number, type: 'mined' | 'finished', outcome: 'succeeded' | 'reverted' = 'succeeded') {
    const one = this.sent[nonce]
    assert.ok(one)
    const { lane, reference } = one
    const place = { lane, reference, nonce, txHash: hashOf(nonce), gasUsed: 60_000 }
    this.news.push(type === 'mined' ? { ...place, type } : { ...place, type, outcome })
  }
}

function isUnfinished(status: string): boolean {
  return status === 'sending' || status === 'submitted'
}

function hashOf(nonce: number): string {
  return `0x${String(nonce).padStart(64, '0')}`
}

type Asked = CtfApproval | CtfRedemption | ProposeResolution

type Harness = {
  readonly world: World
  readonly clock: SimulatedClock
  readonly state: RelayerState
  readonly events: RelayerEvent[]
  relay(operation: Asked, deadlineMs?: number): Promise<RelayAnswer | Rejection>
  /** Lets everything that can happen now happen. */
  settle(): Promise<void>
  advance(ms: number): Promise<void>
}

async function start(world = new World(), rules: Partial<RelayerRules> = {}): Promise<Harness> {
  const clock = simulatedClock(NOON_MS)
  const state = newRelayer({ ...RULES, ...rules }, world.ports, LANES)
  const events: RelayerEvent[] = []
  const served: Served = serve<RelayerState, RelayerProtocol, RelayerEvent>({
    behaviour: relayer,
    select: () => ({ state }),
    clock,
    mailboxMax: 1_000,
    batchMax: 1_000,
    full: reject('OVERLOADED'),
    say: (said) => void events.push(...said),
  })
  let asked = 0
  const settle = async () => {
    for (let turn = 0; turn < 12; turn++) {
      await served.drained()
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  served.hear('Begin', {}, 0, undefined)
  await settle()
  return {
    world,
    clock,
    state,
    events,
    relay: (operation, deadlineMs = 10_000) =>
      new Promise((resolve) => {
        const message = {
          key: keyOf(operation),
          operation,
          deadlineAtMs: clock.nowMs() + deadlineMs,
        }
        const channel = { reply: (_: number, answer: unknown) => resolve(answer as RelayAnswer) }
        served.hear('Relay', message, ++asked, channel)
      }),
    settle,
    async advance(ms) {
      await settle()
      clock.advance(ms)
      await settle()
    },
  }
}

function keyOf({ owner, deadline }: Asked): RelayKey {
  return `0x${owner.slice(2)}${deadline.padStart(24, '0')}`
}

function approval(owner: string, number = 1): CtfApproval {
  return {
    kind: 'ctf-approval',
    chainId: 1,
    owner: `0x${owner.repeat(40)}` as Address,
    operator: LANES[0]!,
    approved: true,
    deadline: String(number) as Uint256,
    v: 27,
    r: '0x',
    s: '0x',
  }
}

function redemption(owner: string, number = 1): CtfRedemption {
  const { approved: _, operator, ...rest } = approval(owner, number)
  return {
    ...rest,
    kind: 'ctf-redemption',
    collateralToken: operator,
    parentCollectionId: '0x',
    conditionId: '0x' as MarketId,
    indexSets: [],
  }
}

/** For which the relayer posts the bond. */
function proposal(owner: string, number = 1): ProposeResolution {
  const { approved: outcome, operator: marketAddress, ...rest } = approval(owner, number)
  return { ...rest, kind: 'propose-resolution', marketAddress, outcome }
}

function code(answer: RelayAnswer | Rejection): string {
  return isRejection(answer) ? answer.rejected : answer.status
}

test('an operation is answered when it is sent, and its end is written before it is acknowledged', async () => {
  const { world, relay, advance, state, events } = await start()
  const operation = approval('a')
  assert.deepEqual(await relay(operation), { txHash: hashOf(0), status: 'pending' })
  await advance(500)
  assert.equal(world.rows.get(keyOf(operation))?.status, 'submitted')
  world.tell(0, 'finished')
  world.fault = { change: AWAY }
  await advance(100)
  assert.deepEqual(world.acknowledged, [])
  assert.equal(state.underway.size, 1)
  world.fault = {}
  await advance(1_000)
  assert.equal(world.rows.get(keyOf(operation))?.status, 'confirmed')
  assert.equal(world.rows.get(keyOf(operation))?.gas, 60_000)
  assert.deepEqual(world.acknowledged, [0])
  assert.equal(state.underway.size, 0)
  assert.equal(state.scopes.size, 0)
  assert.ok(events.some(({ type }) => type === 'ended'))
  assert.deepEqual(await relay(operation), { txHash: hashOf(0), status: 'confirmed' })
  assert.equal(world.sent.length, 1)
  assert.equal(world.examined.length, 1)
})

test('the same request joins the one that is under way', async () => {
  const { world, relay, settle } = await start()
  const answers = [relay(approval('a')), relay(approval('a')), relay(approval('a'))]
  await settle()
  for (const answer of await Promise.all(answers)) {
    assert.deepEqual(answer, { txHash: hashOf(0), status: 'pending' })
  }
  assert.equal(code(await relay(approval('a'))), 'pending')
  assert.equal(world.sent.length, 1)
})

test('one owner’s operations go one after the other, others pass by', async () => {
  const { world, relay, settle, advance } = await start()
  const first = relay(approval('a', 1))
  const second = relay(approval('a', 2))
  const other = relay(approval('b', 1))
  await settle()
  assert.equal(code(await first), 'pending')
  assert.equal(code(await other), 'pending')
  assert.equal(world.examined.length, 2)
  world.tell(0, 'mined')
  await advance(100)
  assert.equal(code(await second), 'pending')
  assert.equal(world.sent.length, 3)
})

test('an operation that nobody waits for any more is not begun', async () => {
  const { world, relay, settle, advance } = await start()
  const first = relay(approval('a', 1))
  const second = relay(approval('a', 2), 50)
  const third = relay(approval('a', 3))
  await settle()
  assert.equal(code(await first), 'pending')
  world.tell(0, 'mined')
  await advance(100)
  assert.equal(code(await second), 'OVERLOADED')
  assert.equal(code(await third), 'pending')
  assert.equal(world.sent.length, 2)
})

test('a refusal leaves no trace and lets the next one go', async () => {
  const { world, relay, settle, state } = await start()
  world.verdict = reject('WOULD_REVERT', 'marketAddress', 'no')
  const refused = relay(approval('a', 1))
  await settle()
  assert.deepEqual(await refused, world.verdict)
  world.verdict = undefined
  assert.equal(code(await relay(approval('a', 2))), 'pending')
  assert.equal(world.rows.size, 1)
  assert.equal(state.scopes.size, 1)
})

test('what fails outside is told, and may be asked for again', async () => {
  const { world, relay } = await start()
  const away = new Fault('CHAIN_UNAVAILABLE', 'gone', { retryable: true })
  const steps = [
    ['find', AWAY, 'OVERLOADED'],
    ['examine', away, 'CHAIN_UNAVAILABLE'],
    ['attempt', away, 'CHAIN_UNAVAILABLE'],
    ['open', AWAY, 'OVERLOADED'],
    ['send', away, 'CHAIN_UNAVAILABLE'],
    ['examine', new TypeError('a bug'), 'INTERNAL'],
  ] as const
  for (const [port, fault, expected] of steps) {
    world.fault = { [port]: fault }
    assert.equal(code(await relay(approval('a'))), expected, port)
  }
  world.fault = {}
  assert.equal(world.rows.get(keyOf(approval('a')))?.status, 'failed')
  assert.equal(code(await relay(approval('a'))), 'pending')
  assert.equal(world.rows.get(keyOf(approval('a')))?.attempt, 2)
  assert.equal(world.sent.length, 1)
})

test('a row that was written although its answer was lost is sent once, by the next request', async () => {
  const { world, relay } = await start()
  const operation = approval('a')
  world.lostAfter = 'open'
  assert.equal(code(await relay(operation)), 'OVERLOADED')
  assert.equal(world.rows.get(keyOf(operation))?.status, 'sending')
  world.lostAfter = undefined
  assert.equal(code(await relay(operation)), 'pending')
  assert.equal(world.rows.get(keyOf(operation))?.attempt, 2)
  assert.equal(world.sent.length, 1)
})

test('after a restart what was sent is followed and what was not is failed', async () => {
  const world = new World()
  const [sent, unsent] = [approval('a'), approval('b')]
  for (const operation of [sent, unsent]) {
    const { owner, kind, chainId } = operation
    const key = keyOf(operation)
    await world.ports.open({ key, owner, kind, chainId, gas: 5, claims: [], atMs: NOON_MS })
  }
  world.open = [{ lane: LANES[0]!, nonce: 0, reference: `${keyOf(sent)}:1`, txHash: hashOf(0) }]
  world.sent.push({ lane: LANES[0]!, reference: `${keyOf(sent)}:1`, nonce: 0 })
  const { relay, advance } = await start(world)
  assert.equal(world.rows.get(keyOf(unsent))?.status, 'failed')
  assert.deepEqual(await relay(sent), { txHash: hashOf(0), status: 'pending' })
  world.tell(0, 'finished')
  await advance(1_000)
  assert.equal(world.rows.get(keyOf(sent))?.status, 'confirmed')
  assert.deepEqual(world.acknowledged, [0])
  assert.equal(code(await relay(unsent)), 'pending')
  assert.equal(world.sent.length, 2)
})

test('a transaction that reverts fails its operation, which may then be sent again', async () => {
  const { world, relay, advance } = await start()
  await relay(approval('a'))
  world.tell(0, 'finished', 'reverted')
  await advance(100)
  const row = world.rows.get(keyOf(approval('a')))
  assert.deepEqual([row?.status, row?.reason], ['failed', 'the transaction reverted'])
  assert.deepEqual(await relay(approval('a')), { txHash: hashOf(1), status: 'pending' })
})

test('a reorganisation opens an operation again', async () => {
  const { world, relay, advance } = await start()
  await relay(approval('a'))
  world.tell(0, 'finished')
  await advance(100)
  const one = world.sent[0]!
  world.news.push({ ...one, txHash: hashOf(0), type: 'vanished' })
  await advance(1_000)
  assert.equal(world.rows.get(keyOf(approval('a')))?.status, 'submitted')
  world.tell(0, 'finished')
  await advance(1_000)
  assert.equal(world.rows.get(keyOf(approval('a')))?.status, 'confirmed')
})

test('an older change that could not be written does not undo a newer one', async () => {
  const { world, relay, advance, clock } = await start()
  world.fault = { change: AWAY }
  await relay(approval('a'))
  await advance(500)
  world.fault = {}
  world.tell(0, 'finished')
  await advance(100)
  assert.equal(world.rows.get(keyOf(approval('a')))?.status, 'confirmed')
  await advance(1_000)
  await advance(1_000)
  assert.equal(world.rows.get(keyOf(approval('a')))?.status, 'confirmed')
  assert.equal(world.changes.at(-1)?.status, 'confirmed')
  assert.ok(clock.nowMs() > NOON_MS)
})

test('the key with the least to wait for sends, and a stuck one only if there is no other', async () => {
  const { world, relay, advance } = await start()
  await relay(approval('a'))
  await relay(approval('b'))
  assert.deepEqual(
    world.sent.map(({ lane }) => lane),
    LANES,
  )
  world.tell(1, 'finished')
  await advance(5_000)
  for (const owner of ['c', 'd', 'e']) await relay(approval(owner))
  // The first key's transaction is in no block for five seconds: the second sends all.
  assert.deepEqual(
    world.sent.slice(2).map(({ lane }) => lane),
    [LANES[1], LANES[1], LANES[1]],
  )
})

test('a key that runs low is warned about, one that is empty is not used, none left is said', async () => {
  const world = new World()
  world.balances = ['50', '5']
  const { relay, advance, events } = await start(world)
  const weighed = events.filter((event) => event.type === 'weighed')
  assert.deepEqual(
    weighed.map(({ isLow }) => isLow),
    [true, true],
  )
  for (const owner of ['a', 'b']) await relay(approval(owner))
  assert.ok(world.sent.every(({ lane }) => lane === LANES[0]))
  world.balances = ['5', '5']
  await advance(60_000)
  const answer = await relay(approval('c'))
  assert.ok(isRejection(answer))
  assert.equal(answer.rejected, 'RELAYER_UNAVAILABLE')
  assert.match(answer.detail ?? '', /run out of money for gas/)
})

test('an owner has so many operations a minute, counted once his signature is good', async () => {
  const { world, relay, advance } = await start(new World(), {
    ownerRate: { perMinute: 2, burst: 2 },
  })
  world.verdict = reject('INVALID_SIGNATURE', 'r')
  for (let at = 0; at < 5; at++) {
    assert.equal(code(await relay(approval('a', at))), 'INVALID_SIGNATURE')
  }
  world.verdict = undefined
  const next = async (number: number) => {
    const answer = await relay(approval('a', number))
    if (!isRejection(answer)) {
      world.tell(world.sent.length - 1, 'finished')
      await advance(100)
    }
    return code(answer)
  }
  assert.deepEqual(
    [await next(1), await next(2), await next(3)],
    ['pending', 'pending', 'RATE_LIMITED'],
  )
  assert.equal(code(await relay(approval('b'))), 'pending')
  await advance(30_000)
  assert.equal(await next(4), 'pending')
})

test('gas is limited by owner and in all, counted as it was used, and anew each day', async () => {
  const { world, relay, advance, clock } = await start(new World(), {
    gasPerDay: { ...RULES.gasPerDay, other: { ownerGas: 250_000, allGas: 400_000 } },
  })
  const next = async (owner: string, number: number) => {
    const answer = await relay(approval(owner, number))
    if (!isRejection(answer)) {
      world.tell(world.sent.length - 1, 'finished')
      await advance(100)
    }
    return code(answer)
  }
  // Each asks for 100,000 and uses 60,000.
  assert.deepEqual(
    [await next('a', 1), await next('a', 2), await next('a', 3)],
    ['pending', 'pending', 'pending'],
  )
  assert.equal(await next('a', 4), 'RATE_LIMITED')
  assert.deepEqual([await next('b', 1), await next('b', 2)], ['pending', 'pending'])
  assert.equal(await next('c', 1), 'pending')
  assert.equal(await next('d', 1), 'RELAYER_UNAVAILABLE')
  for (const row of world.rows.values()) world.rows.set(row.key, { ...row, gas: 0 })
  clock.advance(86_400_000)
  assert.equal(await next('a', 5), 'pending')
})

test('what would change nothing is answered with what did it, and nothing is sent or spent', async () => {
  const { world, relay, state, events } = await start(new World(), {
    gasPerDay: { ...RULES.gasPerDay, other: { ownerGas: 0, allGas: 0 } },
  })
  world.done = { doneBy: hashOf(7) }
  for (let at = 0; at < 8; at++) {
    assert.deepEqual(await relay(approval('a', at)), { txHash: hashOf(7), status: 'confirmed' })
  }
  // Nobody knows which transaction it was.
  world.done = { doneBy: '' }
  assert.deepEqual(await relay(approval('a', 9)), { txHash: '', status: 'confirmed' })
  assert.deepEqual([world.sent.length, world.rows.size, state.underway.size], [0, 0, 0])
  assert.equal(events.filter(({ type }) => type === 'unneeded').length, 9)
})

test('approvals that have used up their gas leave that of redemptions untouched, and the other way round', async () => {
  const tight = { ownerGas: 250_000, allGas: 400_000 }
  const { relay, world, advance, state } = await start(new World(), {
    gasPerDay: { redemption: tight, other: tight },
  })
  const next = async (operation: Asked) => {
    const answer = await relay(operation)
    if (!isRejection(answer)) {
      world.tell(world.sent.length - 1, 'finished')
      await advance(100)
    }
    return code(answer)
  }
  // Strangers spend all that there is for approvals.
  for (const owner of ['b', 'c', 'd', 'e', 'f', '1']) {
    assert.equal(await next(approval(owner)), 'pending')
  }
  assert.equal(await next(approval('9')), 'RELAYER_UNAVAILABLE')
  assert.equal(await next(redemption('a', 2)), 'pending')
  assert.equal(await next(redemption('a', 3)), 'pending')
  assert.equal(await next(redemption('a', 4)), 'pending')
  // His own share of redemptions is limited too, apart from his approvals.
  assert.equal(await next(redemption('a', 5)), 'RATE_LIMITED')
  assert.deepEqual(state.gasToday, { redemption: 180_000, other: 360_000 })
})

test('when much is under way the last places are for redemptions', async () => {
  const { world, relay, state } = await start()
  // Requests that the database does not answer, as many as there may be of other operations.
  let answer = (): void => {}
  const held = new Promise<void>((resolve) => {
    answer = resolve
  })
  const { find } = world.ports
  world.ports.find = async (...asked) => {
    await held
    return find(...asked)
  }
  const waiting = Array.from({ length: RELAYS_UNREDEEMING_MAX }, (_, at) =>
    relay({ ...approval('a', at), owner: `0x${String(at).padStart(40, '0')}` as Address }),
  )
  assert.equal(code(await relay(approval('b'))), 'OVERLOADED')
  const redeemed = relay(redemption('c', 9_999))
  assert.equal(code(await relay(approval('d'))), 'OVERLOADED')
  assert.equal(state.underway.size, RELAYS_UNREDEEMING_MAX + 1)
  answer()
  assert.equal(code(await redeemed), 'pending')
  assert.equal(code(await waiting[0]!), 'pending')
})

test('requests forged in one owner’s name fill his line, and not the relayer for everybody', async () => {
  const { world, relay, state } = await start()
  world.verdict = reject('INVALID_SIGNATURE')
  const { promise: held, resolve: answer } = Promise.withResolvers<void>()
  const { examine } = world.ports
  world.ports.examine = async (operation) => {
    if (operation.owner === approval('a').owner) await held
    return examine(operation)
  }
  const forged = Array.from({ length: RELAYS_UNREDEEMING_MAX }, (_, at) =>
    relay(redemption('a', at)),
  )
  for (const late of forged.slice(RELAYS_IN_LINE_MAX))
    assert.equal(code(await late), 'RATE_LIMITED')
  assert.equal(state.underway.size, RELAYS_IN_LINE_MAX)

  world.verdict = undefined
  assert.equal(code(await relay(redemption('b'))), 'pending')
  assert.equal(code(await relay(approval('c'))), 'pending')

  world.verdict = reject('INVALID_SIGNATURE')
  answer()
  for (const refused of forged.slice(0, RELAYS_IN_LINE_MAX)) {
    assert.equal(code(await refused), 'INVALID_SIGNATURE')
  }
  world.verdict = undefined
  assert.equal(code(await relay(redemption('a', 9_999))), 'pending', 'his line is free again')
})

test('the line for the relayer’s own bond is everybody’s: one name does not fill it', async () => {
  const { world, relay, state } = await start()
  world.verdict = reject('INVALID_SIGNATURE')
  const { promise: held, resolve: answer } = Promise.withResolvers<void>()
  const { find } = world.ports
  world.ports.find = async (...asked) => {
    await held
    return find(...asked)
  }
  for (let at = 0; at < RELAYS_IN_LINE_MAX; at++) void relay(proposal('a', at))
  const other = relay(proposal('b'))
  assert.equal(code(await relay(proposal('a', 9_999))), 'RATE_LIMITED')
  assert.equal(state.underway.size, RELAYS_IN_LINE_MAX + 1)
  answer()
  assert.equal(code(await other), 'INVALID_SIGNATURE')
})
