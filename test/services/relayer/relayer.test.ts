/** The relayer's decisions without a chain: all ports answer from tables that the test controls. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault } from '#domain/fault.ts'
import type { Address } from '#domain/ids.ts'
import { RELAYS_IN_LINE_MAX, RELAYS_UNREDEEMING_MAX } from '#domain/limits.ts'
import { isRejection, reject } from '#domain/rejection.ts'
import type { RelayKey } from '#domain/relay.ts'
import { moveTo, STEPS, type Stage } from '#services/relayer/state.ts'
import { simulatedClock } from '../../support/simulated-clock.ts'
import {
  type Asked,
  AWAY,
  approval,
  code,
  type Harness,
  hashOf,
  keyOf,
  LANES,
  NOON_MS,
  proposal,
  RULES,
  redemption,
  settlement,
  start,
  World,
} from './relayer-fixture.ts'

const HALF_DAY_MS = 43_200_000

test('the relayer answers once an operation is sent, and acknowledges its finished transaction only after storing the result', async () => {
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

test('repeated requests for a relayer operation in progress send one transaction and get the same answer', async () => {
  const { world, relay, settle } = await start()
  const answers = [relay(approval('a')), relay(approval('a')), relay(approval('a'))]
  await settle()
  for (const answer of await Promise.all(answers)) {
    assert.deepEqual(answer, { txHash: hashOf(0), status: 'pending' })
  }
  assert.equal(code(await relay(approval('a'))), 'pending')
  assert.equal(world.sent.length, 1)
})

test('the relayer does one owner’s operations one after the other, without delaying other owners', async () => {
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

test('the relayer sends an owner’s proposals with bonds one after the other, even in different markets', async () => {
  const { world, relay, advance, settle } = await start()
  const { deadline, v, r, s } = approval('a')
  const bond = { deadline, v, r, s }
  const proposals = LANES.map((marketAddress, at) => ({
    ...proposal('a', at + 1),
    ...{ marketAddress, bond },
  }))
  const [first, second] = proposals.map((one) => relay(one))
  await settle()
  assert.equal(code(await first!), 'pending')
  // The permits of both bonds need the same nonce of the stablecoin, and both bonds are paid from one balance. So the
  // second proposal is examined only after the first transaction is mined.
  assert.equal(world.examined.length, 1)
  world.tell(0, 'mined')
  await advance(100)
  assert.equal(code(await second!), 'pending')
})

test('the relayer settles a market once, although several accounts request it before it is mined', async () => {
  const { world, relay, advance } = await start()
  const together = await Promise.all(['a', 'b', 'c'].map((owner) => relay(settlement(owner))))
  assert.deepEqual(together.map(code), ['pending', 'OVERLOADED', 'OVERLOADED'])
  assert.deepEqual(await relay(settlement('b')), { txHash: hashOf(0), status: 'pending' })
  world.tell(0, 'mined')
  await advance(100)
  // The simulation for `c` may succeed, if it runs on the state before the settlement's block. So the relayer returns
  // the known transaction, and sends no second one.
  assert.deepEqual(await relay(settlement('c')), { txHash: hashOf(0), status: 'pending' })
  assert.equal(world.sent.length, 1)
  const other = { ...settlement('d'), marketAddress: LANES[1]! }
  assert.equal(code(await relay(other)), 'pending')
  assert.equal(world.sent.length, 2)
})

test('the relayer does not start an operation if its client no longer waits for the answer', async () => {
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

test('the relayer stores nothing about a refused operation, and starts the owner’s next operation', async () => {
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

test('a relayer operation that was rejected because of a database or chain fault can be requested again', async () => {
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

test('if the database’s answer about a new operation is lost, the client’s next request sends the operation once', async () => {
  const { world, relay } = await start()
  const operation = approval('a')
  world.lostAfter = 'open'
  world.fault = { change: AWAY }
  assert.equal(code(await relay(operation)), 'OVERLOADED')
  assert.equal(world.rows.get(keyOf(operation))?.status, 'sending')
  world.lostAfter = undefined
  world.fault = {}
  assert.equal(code(await relay(operation)), 'pending')
  assert.equal(world.rows.get(keyOf(operation))?.attempt, 2)
  assert.equal(world.sent.length, 1)
})

test('the relayer retries an operation only after the failure of its earlier unsent attempt is stored', async () => {
  const { world, relay, advance } = await start()
  const operation = approval('a')
  world.fault = { open: AWAY, change: AWAY }
  assert.equal(code(await relay(operation)), 'OVERLOADED')
  world.fault = {}
  // The journal did not store the first attempt, and the relayer has not yet recorded that it failed. Until then, the
  // relayer refuses new attempts, because a new attempt would get the same number.
  assert.equal(code(await relay(operation)), 'OVERLOADED')
  assert.equal(world.sent.length, 0)
  await advance(1_000)
  assert.equal(code(await relay(operation)), 'pending')
  await advance(2_000)
  world.tell(0, 'finished')
  await advance(2_000)
  assert.equal(world.rows.get(keyOf(operation))?.status, 'confirmed')
})

test('the relayer marks an operation as failed if its database answer was lost and no client retries', async () => {
  const { world, relay, advance, state } = await start()
  const operation = approval('a')
  world.lostAfter = 'open'
  world.fault = { change: AWAY }
  assert.equal(code(await relay(operation)), 'OVERLOADED')
  world.fault = {}
  await advance(2_000)
  const { status, gas } = world.rows.get(keyOf(operation))!
  assert.deepEqual([status, gas, state.gasToday.other], ['failed', 0, 0])
  assert.equal(world.sent.length, 0)
})

test('after a restart, the relayer follows the operations it had sent, and marks the others as failed', async () => {
  const world = new World()
  const [sent, unsent] = [approval('a'), approval('b')]
  for (const operation of [sent, unsent]) {
    const { owner, kind, chainId } = operation
    const key = keyOf(operation)
    await world.ports.open({
      ...{ key, owner, kind, chainId, attempt: 1 },
      ...{ gas: 5, claims: [], atMs: NOON_MS },
    })
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

test('after a restart, the relayer marks an unsent attempt as failed but still follows an earlier sent attempt', async () => {
  const world = new World()
  const operation = approval('a')
  const { owner, kind, chainId } = operation
  const key = keyOf(operation)
  const opened = { key, owner, kind, chainId, gas: 5, claims: [], atMs: NOON_MS }
  await world.ports.open({ ...opened, attempt: 1 })
  const failed = { status: 'failed', txHash: '', gas: null, reason: '', atMs: NOON_MS } as const
  await world.ports.change({ key, attempt: 1, ...failed })
  await world.ports.open({ ...opened, attempt: 2 })
  const [lane, reference] = [LANES[0]!, `${key}:1`]
  world.open = [{ lane, nonce: 0, reference, txHash: hashOf(0) }]
  world.sent.push({ lane, reference, nonce: 0 })
  const { advance } = await start(world)
  const unsent = world.rows.get(key)
  assert.deepEqual([unsent?.status, unsent?.reason], ['failed', 'the transaction was not sent'])
  world.tell(0, 'finished')
  await advance(1_000)
  const { status, txHash, gas } = world.rows.get(key)!
  assert.deepEqual([status, txHash, gas], ['confirmed', hashOf(0), 10])
  assert.deepEqual(world.acknowledged, [0])
})

test('if the database executes the relayer’s request for an attempt twice, only one attempt is opened', async () => {
  const { world, relay, advance, state } = await start()
  const operation = approval('a')
  const { open } = world.ports
  // The database executes the same request twice. The first copy opens the attempt, and the attempt fails. Then the
  // delayed second copy is executed.
  world.ports.open = async (relayed) => {
    await open(relayed)
    const failed = { status: 'failed', txHash: '', gas: 0, reason: '', atMs: NOON_MS } as const
    await world.ports.change({ key: relayed.key, attempt: 1, ...failed })
    return open(relayed)
  }
  assert.equal(code(await relay(operation)), 'OUTCOME_UNKNOWN')
  await advance(2_000)
  const { status, attempt } = world.rows.get(keyOf(operation))!
  assert.deepEqual([status, attempt, state.gasToday.other], ['failed', 1, 0])
})

test('the stored gas of an operation is the sum of all its attempts, even after a restart', async () => {
  const first = await start()
  const { world } = first
  const operation = approval('a')
  const paid = ({ events }: Harness) =>
    events.flatMap((event) => (event.type === 'ended' ? [event.gas] : []))
  for (const nonce of [0, 1]) {
    await first.relay(operation)
    world.tell(nonce, 'finished', 'reverted')
    await first.advance(1_000)
  }
  assert.deepEqual(paid(first), [60_000, 60_000])
  assert.equal(world.rows.get(keyOf(operation))?.gas, 120_000)
  await first.relay(operation)
  const { lane, reference } = world.sent[2]!
  world.open = [{ lane, nonce: 2, reference, txHash: hashOf(2) }]

  const second = await start(world)
  world.tell(2, 'finished')
  await second.advance(1_000)
  assert.deepEqual(paid(second), [60_000])
  const { status, gas } = world.rows.get(keyOf(operation))!
  assert.deepEqual([status, gas], ['confirmed', 220_000])
})

test('an operation whose transaction reverts has failed, and can be requested again', async () => {
  const { world, relay, advance } = await start()
  await relay(approval('a'))
  world.tell(0, 'finished', 'reverted')
  await advance(100)
  const row = world.rows.get(keyOf(approval('a')))
  assert.deepEqual([row?.status, row?.reason], ['failed', 'the transaction reverted'])
  assert.deepEqual(await relay(approval('a')), { txHash: hashOf(1), status: 'pending' })
})

test('if a reorg removes the transaction of a finished operation, the relayer follows the operation again', async () => {
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

test('the gas of an operation counts once, even if reorgs move the operation to another block', async () => {
  const { world, relay, advance, state } = await start()
  await relay(approval('a'))
  for (let reorgs = 0; reorgs < 3; reorgs++) {
    world.tell(0, 'mined')
    await advance(1_000)
    assert.equal(state.gasToday.other, 60_000)
    world.news.push({ ...world.sent[0]!, txHash: hashOf(0), type: 'vanished' })
    await advance(1_000)
    assert.equal(state.gasToday.other, 100_000)
  }
  world.tell(0, 'finished')
  await advance(1_000)
  assert.equal(world.rows.get(keyOf(approval('a')))?.gas, 60_000)
  assert.equal(state.gasToday.other, 60_000)
})

test('if a reorg moves an operation to another block, the gas used in the new block counts', async () => {
  const { world, relay, advance, state } = await start()
  await relay(approval('a'))
  world.tell(0, 'mined')
  await advance(1_000)
  const moved = { ...world.sent[0]!, txHash: hashOf(0), gasUsed: 90_000 }
  world.news.push({ ...moved, type: 'mined' })
  await advance(1_000)
  assert.equal(state.gasToday.other, 90_000)
  world.news.push({ ...moved, type: 'finished', outcome: 'reverted' })
  await advance(1_000)
  assert.equal(world.rows.get(keyOf(approval('a')))?.gas, 90_000)
  assert.equal(state.gasToday.other, 90_000)
})

test('a delayed older database write for a relayer operation does not overwrite a newer write', async () => {
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

test('the relayer sends with the key that has the shortest queue, and avoids a key whose transaction is stuck', async () => {
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
  // The transaction of the first key has been pending for five seconds and counts as stuck. So the second key sends all
  // further operations.
  assert.deepEqual(
    world.sent.slice(2).map(({ lane }) => lane),
    [LANES[1], LANES[1], LANES[1]],
  )
})

test('the relayer reports keys with little ether, skips empty keys, and refuses operations if every key is empty', async () => {
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
  assert.match(answer.detail ?? '', /no ether left for gas/)
})

test('an owner has a limited number of operations per minute, and only those with a valid signature count', async () => {
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

test('the relayer limits the gas used per owner and in total, and resets both limits each day', async () => {
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
  // Each operation reserves 100,000 gas. Once it has ended, it counts with 60,000.
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

test('an owner’s gas from yesterday does not count today, even if midnight passes while it is read', async () => {
  const { world, relay, clock, state } = await start()
  const { find } = world.ports
  world.ports.find = async (...asked) => {
    const found = await find(...asked)
    clock.advance(1)
    return { ...found, gas: RULES.gasPerDay.other.ownerGas }
  }
  clock.advance(HALF_DAY_MS - 1)
  // The relayer reads the owner's gas before it checks the signature. So a stranger can make it read this gas at any
  // time, for example just before midnight, by a request with an invalid signature.
  world.verdict = reject('INVALID_SIGNATURE')
  assert.equal(code(await relay(approval('a', 1))), 'INVALID_SIGNATURE')
  world.ports.find = find
  world.verdict = undefined
  assert.equal(code(await relay(approval('a', 2))), 'pending')
  assert.equal(state.owners.get(approval('a').owner)?.gas.other, 100_000)
})

test('if midnight passes while the relayer starts, the gas of the previous day does not count', async () => {
  const world = new World()
  const clock = simulatedClock(NOON_MS)
  world.ports.gasSince = async () => {
    clock.advance(HALF_DAY_MS)
    return { redemption: 0, other: RULES.gasPerDay.other.allGas }
  }
  const { relay } = await start(world, {}, clock)
  assert.equal(code(await relay(approval('a'))), 'pending')
})

test('delegates can use only half of an owner’s operations and gas, so the owner can still revoke delegates', async () => {
  for (const rules of [
    { gasPerDay: { ...RULES.gasPerDay, other: { ownerGas: 250_000, allGas: 1_000_000 } } },
    { ownerRate: { perMinute: 1, burst: 2 } },
  ]) {
    const { world, relay, advance } = await start(new World(), rules)
    const next = async (number: number, byDelegate: boolean) => {
      world.byDelegate = byDelegate
      const answer = await relay(approval('a', number))
      world.tell(world.sent.length - 1, 'finished')
      await advance(100)
      return code(answer)
    }
    assert.deepEqual([await next(1, true), await next(2, true)], ['pending', 'RATE_LIMITED'])
    assert.equal(await next(3, false), 'pending')
  }
})

test('for an operation that would change nothing, the relayer returns the earlier transaction and spends no gas', async () => {
  const { world, relay, state, events } = await start(new World(), {
    gasPerDay: { ...RULES.gasPerDay, other: { ownerGas: 0, allGas: 0 } },
  })
  world.done = { doneBy: hashOf(7) }
  for (let at = 0; at < 8; at++) {
    assert.deepEqual(await relay(approval('a', at)), { txHash: hashOf(7), status: 'confirmed' })
  }
  // The transaction is unknown.
  world.done = { doneBy: '' }
  assert.deepEqual(await relay(approval('a', 9)), { txHash: '', status: 'confirmed' })
  assert.deepEqual([world.sent.length, world.rows.size, state.underway.size], [0, 0, 0])
  assert.equal(events.filter(({ type }) => type === 'unneeded').length, 9)
})

test('gas of approvals and gas of redemptions are limited separately', async () => {
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
  // Strangers use up the gas budget for approvals.
  for (const owner of ['b', 'c', 'd', 'e', 'f', '1']) {
    assert.equal(await next(approval(owner)), 'pending')
  }
  assert.equal(await next(approval('9')), 'RELAYER_UNAVAILABLE')
  assert.equal(await next(redemption('a', 2)), 'pending')
  assert.equal(await next(redemption('a', 3)), 'pending')
  assert.equal(await next(redemption('a', 4)), 'pending')
  // The owner's own share for redemptions is limited too, separately from approvals.
  assert.equal(await next(redemption('a', 5)), 'RATE_LIMITED')
  assert.deepEqual(state.gasToday, { redemption: 180_000, other: 360_000 })
})

test('when almost the maximum number of operations is in flight, the relayer accepts only redemptions', async () => {
  const { world, relay, state } = await start()
  // The database does not answer, so the sent operations stay in flight. They reach `RELAYS_UNREDEEMING_MAX`, the
  // maximum number of operations that are not redemptions.
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

test('forged requests in the name of an owner fill only that owner’s queue', async () => {
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

test('one owner cannot fill the shared queue for proposals that use the relayer’s bond', async () => {
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

test('moving a relayer operation to a stage that cannot follow its current stage throws an error', () => {
  const stages = Object.keys(STEPS) as Stage[]
  for (const from of stages) {
    for (const to of stages) {
      const one = { key: '0x01' as RelayKey, stage: from }
      if (STEPS[from].includes(to)) {
        moveTo(one, to)
        assert.equal(one.stage, to)
      } else assert.throws(() => moveTo(one, to), /0x01 cannot go from \w+ to \w+/)
    }
  }
})
