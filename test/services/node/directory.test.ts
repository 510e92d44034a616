import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Beat, Directory, type Duty } from '#services/node/directory.ts'
import { withSeeds } from '../../support/random.ts'

const SILENCE_MS = 1_000
const BEAT_MS = 300

/**
 * Makes nodes that receive each other's beats and share one clock. A node marked as `cut` neither sends nor receives.
 */
function world({ moveAfterMs = 0 } = {}) {
  const nodes = new Map<string, { directory: Directory; cut: boolean; dead: boolean }>()
  const duties: (Duty & { readonly at: string })[] = []
  let nowMs = 10_000
  const done = (at: string, found: readonly Duty[]): void => {
    for (const duty of found) {
      duties.push({ ...duty, at })
      const directory = nodes.get(at)!.directory
      // The simulated threads need no time to start or to stop.
      if (duty.type === 'take') directory.serving(duty.slot, nowMs)
      if (duty.type === 'release') done(at, directory.ended(duty.slot, nowMs))
    }
  }
  const say = (beat: Beat): void => {
    for (const [name, node] of nodes) {
      if (node.dead || node.cut) continue
      done(name, node.directory.receive(beat, nowMs))
    }
  }
  return {
    nodes,
    duties,
    say,
    done,
    get nowMs() {
      return nowMs
    },
    add(node: string, offers: readonly string[], { incarnation = node, shape = 'm2' } = {}) {
      const directory = new Directory({
        ...{ node, incarnation, shape, offers, silenceMs: SILENCE_MS },
        ...{ moves: SLOTS, moveAfterMs },
      })
      nodes.set(node, { directory, cut: false, dead: false })
      return directory
    },
    pass(ms: number): void {
      for (let left = ms; left > 0; left -= BEAT_MS) {
        nowMs += Math.min(left, BEAT_MS)
        for (const [name, { directory, cut, dead }] of nodes) {
          if (dead) continue
          done(name, directory.tick(nowMs))
          if (!cut) say(directory.beat(nowMs))
        }
      }
    },
    owners(slots: readonly string[]): (string | undefined)[] {
      const [any] = [...nodes.values()].filter(({ dead, cut }) => !dead && !cut)
      return slots.map((slot) => any!.directory.ownerOf(slot)?.node)
    },
  }
}

const SLOTS = ['market-0', 'market-1', 'market-2', 'market-3', 'market-4', 'market-5']

test('a single node takes all threads that it offers, but only after it has listened for other nodes for a while', () => {
  const w = world()
  const a = w.add('a', SLOTS)
  w.pass(BEAT_MS)
  assert.equal(w.duties.length, 0)
  w.pass(SILENCE_MS + BEAT_MS)
  assert.deepEqual(
    w.duties.map((duty) => (duty.type === 'take' ? duty.slot : '')),
    SLOTS,
  )
  assert.equal(a.ownerOf('market-0')?.node, 'a')
  assert.equal(a.ownerOf('store'), undefined)
})

test('two nodes share the threads without duplicates, and a node that joins later takes no thread away', () => {
  const w = world()
  w.add('a', SLOTS)
  w.add('b', SLOTS)
  w.pass(3 * SILENCE_MS)
  const owners = w.owners(SLOTS)
  assert.deepEqual([...new Set(owners)].sort(), ['a', 'b'])
  assert.equal(w.duties.filter(({ type }) => type === 'take').length, SLOTS.length)
  w.add('c', SLOTS)
  w.pass(3 * SILENCE_MS)
  assert.deepEqual(w.owners(SLOTS), owners)
})

test('the threads of a node that is silent for a second go to other nodes, with a higher epoch', () => {
  const w = world()
  for (const name of ['a', 'b', 'c']) w.add(name, SLOTS)
  w.pass(3 * SILENCE_MS)
  const before = w.owners(SLOTS)
  w.nodes.get('a')!.dead = true
  w.pass(SILENCE_MS - BEAT_MS)
  assert.deepEqual(w.owners(SLOTS), before, 'not before the second is over')
  w.pass(2 * BEAT_MS)
  const after = w.owners(SLOTS)
  assert(!after.includes('a') && !after.includes(undefined))
  for (const [index, owner] of before.entries()) {
    if (owner !== 'a') assert.equal(after[index], owner, 'the others stay where they are')
  }
  const taken = w.duties.filter((duty) => duty.type === 'take' && duty.epoch === 2)
  assert.equal(taken.length, before.filter((owner) => owner === 'a').length)
})

test('a cut-off node takes no threads, and on return releases the threads that other nodes took over', () => {
  const w = world()
  w.add('a', SLOTS)
  w.add('b', SLOTS)
  w.pass(3 * SILENCE_MS)
  const a = w.nodes.get('a')!
  const mine = a.directory.beat(w.nowMs).claims.map(({ slot }) => slot)
  assert(mine.length > 0)
  a.cut = true
  w.pass(5 * SILENCE_MS)
  const cutTakes = w.duties.filter(({ type, at }) => type === 'take' && at === 'a')
  assert.equal(cutTakes.length, mine.length, 'who is cut off takes nothing, though it hears nobody')
  a.cut = false
  w.pass(3 * SILENCE_MS)
  const released = w.duties.filter(({ type, at }) => type === 'release' && at === 'a')
  assert.deepEqual(
    released.map((duty) => duty.type === 'release' && duty.slot),
    mine,
  )
  assert.deepEqual(
    w.owners(SLOTS),
    SLOTS.map(() => 'b'),
  )
})

test('other nodes treat a restarted node as a new incarnation that does not own its earlier threads', () => {
  const w = world()
  w.add('a', SLOTS)
  const b = w.add('b', SLOTS)
  w.pass(3 * SILENCE_MS)
  const fresh = new Directory({
    node: 'a',
    incarnation: 'a2',
    shape: 'm2',
    offers: SLOTS,
    silenceMs: SILENCE_MS,
    ...{ moves: [], moveAfterMs: 0 },
  })
  const duties = b.receive(fresh.beat(w.nowMs), w.nowMs)
  assert.deepEqual(duties[0], {
    type: 'gone',
    node: 'a',
    incarnation: 'a',
    why: 'it was started again',
  })
  for (const slot of SLOTS) assert.notEqual(b.ownerOf(slot)?.incarnation, 'a')
})

test('a node that leaves hands over its threads without waiting for a timeout, and announces its departure', () => {
  const w = world()
  const a = w.add('a', SLOTS)
  const b = w.add('b', SLOTS)
  w.pass(3 * SILENCE_MS)
  w.done('a', a.leave(w.nowMs))
  assert(a.holdsNothing)
  w.say(a.beat(w.nowMs))
  w.say(b.beat(w.nowMs))
  assert.deepEqual(
    w.owners(SLOTS),
    SLOTS.map(() => 'b'),
  )
  w.say(a.beat(w.nowMs, true))
  assert(w.duties.some((duty) => duty.type === 'gone' && duty.why === 'it has left'))
})

test('a node that fails to start a thread leaves the thread to other nodes for a while', () => {
  const w = world()
  const a = w.add('a', ['store'])
  w.pass(2 * SILENCE_MS)
  assert.equal(w.duties.length, 1)
  const alone = new Directory({
    node: 'x',
    incarnation: 'x',
    shape: 'm2',
    offers: ['store'],
    silenceMs: SILENCE_MS,
    ...{ moves: [], moveAfterMs: 0 },
  })
  const echo = (atMs: number) => alone.receive(alone.beat(atMs), atMs)
  for (const atMs of [0, 400, 800]) echo(atMs)
  assert.equal(echo(1_200)[0]?.type, 'take')
  assert.deepEqual(alone.ended('store', 1_300), [], 'not at once')
  assert.deepEqual(alone.beat(1_300).offers, [])
  echo(1_500)
  assert.equal(echo(1_900)[0]?.type, 'take')
  alone.serving('store', 2_000)
  assert.equal(a.ownerOf('store')?.epoch, 1)
})

test('if a thread dies after it became ready, its node immediately restarts the thread', () => {
  const w = world()
  const a = w.add('a', ['store'])
  w.pass(20 * SILENCE_MS)
  const [duty] = a.ended('store', w.nowMs)
  assert.deepEqual(duty, { type: 'take', slot: 'store', epoch: 2 })
})

test('if two nodes take the same thread with the same epoch, one of them releases it', () => {
  const w = world()
  const a = w.add('a', ['store'])
  const b = w.add('b', ['store'])
  // In this network split each node receives only its own beats, so both nodes take the slot. After the loop the split
  // ends.
  for (const atMs of [0, 400, 800, 1_200]) {
    w.done('a', a.receive(a.beat(atMs), atMs))
    w.done('b', b.receive(b.beat(atMs), atMs))
  }
  assert.equal(w.duties.length, 2)
  w.done('a', a.receive(b.beat(1_300), 1_300))
  w.done('b', b.receive(a.beat(1_300), 1_300))
  assert.deepEqual(
    w.duties.slice(2).map(({ type, at }) => [type, at]),
    [['release', 'a']],
  )
  assert.equal(a.ownerOf('store')?.node, 'b')
})

test('a new node reports why it cannot join if its name is taken or its settings differ', () => {
  const w = world()
  const a = w.add('a', SLOTS)
  w.pass(3 * SILENCE_MS)
  const namesake = new Directory({
    node: 'a',
    incarnation: 'other',
    shape: 'm2',
    offers: SLOTS,
    silenceMs: SILENCE_MS,
    ...{ moves: [], moveAfterMs: 0 },
  })
  const stranger = new Directory({
    node: 'z',
    incarnation: 'z',
    shape: 'm4',
    offers: SLOTS,
    silenceMs: SILENCE_MS,
    ...{ moves: [], moveAfterMs: 0 },
  })
  assert.deepEqual(namesake.receive(a.beat(w.nowMs), w.nowMs), [
    { type: 'unfit', why: 'SIBYL_NODE: another node of the cluster is called a' },
  ])
  assert.deepEqual(stranger.receive(a.beat(w.nowMs), w.nowMs), [
    { type: 'unfit', why: 'node a has m2, but this node has m4: all nodes need the same values' },
  ])
  const before = w.owners(SLOTS)
  for (const odd of [namesake, stranger]) w.done('a', a.receive(odd.beat(w.nowMs), w.nowMs))
  assert.deepEqual(w.owners(SLOTS), before)
})

test('a leave message of an earlier incarnation of a node does not affect the current one', () => {
  const w = world()
  const a = w.add('a', SLOTS)
  const b = w.add('b', [])
  w.pass(3 * SILENCE_MS)
  const refused = { ...a.beat(w.nowMs, true), incarnation: 'refused', claims: [] }
  assert.deepEqual(b.receive(refused, w.nowMs), [])
  assert.equal(b.ownerOf('market-0')?.incarnation, 'a')
})

test('a node that was silent leaves on its return if another node has taken its name', () => {
  const w = world()
  const a = w.add('a', SLOTS)
  const b = w.add('b', SLOTS)
  for (const each of [a, b]) each.warmed()
  w.pass(3 * SILENCE_MS)
  // The node counts as dead, and its replacement is started on another machine.
  const away = w.nodes.get('a')!
  w.nodes.delete('a')
  const next = w.add('a', SLOTS, { incarnation: 'next' })
  w.pass(3 * SILENCE_MS)
  next.warmed()
  w.nodes.set('back', away)
  w.duties.length = 0
  w.pass(SILENCE_MS)
  assert.deepEqual(
    w.duties.filter(({ type }) => type === 'unfit'),
    [{ type: 'unfit', why: 'SIBYL_NODE: another node of the cluster is called a', at: 'back' }],
  )
  w.nodes.delete('back')
  w.pass(3 * SILENCE_MS)
  for (const slot of SLOTS) assert.notEqual(b.ownerOf(slot)?.incarnation, 'a')
})

test('after a network split, one of two nodes with the same name leaves the cluster', () => {
  const w = world()
  const [one, two] = ['1', '2'].map((incarnation) => {
    const directory = w.add('a', SLOTS, { incarnation })
    w.pass(3 * SILENCE_MS)
    directory.warmed()
    return directory
  })
  const goes = (who: Directory, whom: Directory) => {
    return who.receive(whom.beat(w.nowMs), w.nowMs).some(({ type }) => type === 'unfit')
  }
  one!.receive(one!.beat(w.nowMs), w.nowMs)
  w.nodes.clear()
  assert.deepEqual([goes(one!, two!), goes(two!, one!)], [true, false])
})

test('after any node deaths and network splits, each thread runs on one node that all nodes agree on', () => {
  withSeeds([1, 2, 3, 4, 5, 6, 7, 8], (random) => {
    const w = world({ moveAfterMs: random.chance(0.5) ? 0 : random.int(1, 3_000) })
    const names = ['a', 'b', 'c', 'd']
    for (const name of names) w.add(name, SLOTS).warmed()
    for (let step = 0; step < 200; step++) {
      const name = random.pick(names)
      const node = w.nodes.get(name)!
      if (random.chance(0.2)) node.cut = !node.cut
      else if (random.chance(0.1)) w.add(name, SLOTS, { incarnation: `${name}${step}` }).warmed()
      w.pass(random.int(1, 1_500))
    }
    for (const node of w.nodes.values()) node.cut = false
    w.pass(5 * SILENCE_MS)
    const all = [...w.nodes.values()].map(({ directory }) => directory)
    for (const slot of SLOTS) {
      const views = new Set(all.map((directory) => directory.ownerOf(slot)?.node))
      assert.equal(views.size, 1, `${slot} has owners ${[...views]}`)
      assert(!views.has(undefined), `${slot} has no owner`)
      const claims = all.filter((directory) =>
        directory.beat(w.nowMs).claims.some((claim) => claim.slot === slot),
      )
      assert.equal(claims.length, 1, slot)
    }
  })
})

/** Returns the node of each slot if all nodes join at the same time. */
function placesOf(names: readonly string[]): (string | undefined)[] {
  const w = world()
  for (const name of names) w.add(name, SLOTS)
  w.pass(3 * SILENCE_MS)
  return w.owners(SLOTS)
}

test('movable threads are assigned evenly to nodes, whatever the names of the nodes', () => {
  for (const prefix of ['a', 'books-', 'market-', 'hall-', 'n']) {
    const names = ['a', 'b', 'c'].map((name) => `${prefix}${name}`)
    const places = placesOf(names)
    for (const name of names) {
      assert.equal(places.filter((place) => place === name).length, SLOTS.length / 3, `${places}`)
    }
  }
})

test('threads move one at a time to a node that joined later, only once the node is ready', () => {
  const moveAfterMs = 10 * SILENCE_MS
  const w = world({ moveAfterMs })
  w.add('a', SLOTS).warmed()
  w.add('b', SLOTS).warmed()
  w.pass(3 * SILENCE_MS)
  const before = w.owners(SLOTS)
  const places = placesOf(['a', 'b', 'f'])
  const moved = SLOTS.filter((_, index) => before[index] !== places[index])
  assert(moved.length > 1, 'the new node has several slots, or this tests nothing')
  const later = w.add('f', SLOTS)
  w.pass(3 * moveAfterMs)
  assert.deepEqual(w.owners(SLOTS), before, 'nothing moves to a node that is not ready')
  later.warmed()
  w.pass(moveAfterMs - BEAT_MS)
  assert.deepEqual(w.owners(SLOTS), before, 'nor before it was ready for long enough')
  w.duties.length = 0
  w.pass(5 * SILENCE_MS)
  assert.deepEqual(w.owners(SLOTS), places)
  const told = w.duties.map(({ type }) => type)
  const pairs = moved.flatMap(() => ['release', 'take'])
  assert.deepEqual(told, pairs, 'the next one moves when the one before is served')
  w.pass(100 * SILENCE_MS)
  assert.equal(w.duties.length, pairs.length)
})

test('while a moved thread is not ready on its new node, no other thread moves', () => {
  const moveAfterMs = 2 * SILENCE_MS
  const w = world({ moveAfterMs })
  w.add('a', SLOTS)
  w.pass(3 * SILENCE_MS)
  const c = w.add('c', SLOTS)
  c.warmed()
  // From now on, node `c` takes released slots, but never reports that their threads are ready.
  c.serving = () => undefined
  w.pass(20 * SILENCE_MS)
  const releases = w.duties.filter(({ type }) => type === 'release')
  assert.equal(releases.length, 1)
})

test('a thread that cannot start on its preferred node moves back, and the wait before its next move doubles', () => {
  const moveAfterMs = 10 * SILENCE_MS
  const w = world({ moveAfterMs })
  w.add('a', SLOTS)
  w.pass(3 * SILENCE_MS)
  const before = w.owners(SLOTS)
  const c = w.add('c', SLOTS)
  c.warmed()
  c.serving = (slot) => w.done('c', c.ended(slot, w.nowMs))
  const timesOf = (slot: string) =>
    w.duties.filter((duty) => duty.type === 'release' && duty.slot === slot).length
  w.pass(15 * SILENCE_MS)
  const [tried] = SLOTS.filter((slot) => timesOf(slot) > 0)
  assert(tried !== undefined)
  const first = timesOf(tried)
  w.pass(moveAfterMs)
  assert.equal(timesOf(tried), first, 'not again after the time in which it moved first')
  w.pass(2 * moveAfterMs)
  assert.equal(timesOf(tried), first + 1)
  c.warmed()
  assert.deepEqual(w.owners(SLOTS), before, 'all are served where they were')
})

test('a forged heartbeat with a huge epoch does not stop other nodes from taking over threads', () => {
  const cluster = world()
  const a = cluster.add('a', SLOTS)
  cluster.add('b', SLOTS)
  cluster.pass(3_000)
  const before = cluster.owners(SLOTS)
  for (const epoch of [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER - 1, 2 ** 40]) {
    const claims = SLOTS.map((slot) => ({ slot, epoch, serving: true }))
    cluster.say({ ...a.beat(cluster.nowMs), node: 'evil', incarnation: 'evil', offers: [], claims })
  }
  assert.deepEqual(cluster.owners(SLOTS), before)
  cluster.nodes.get('b')!.dead = true
  cluster.pass(3_000)
  assert.deepEqual(
    cluster.owners(SLOTS),
    SLOTS.map(() => 'a'),
  )
  for (const { epoch } of a.beat(cluster.nowMs).claims) assert(epoch < 10, `epoch ${epoch}`)
})

test('the threads of a dead node go to the node whose copy of the log is complete', () => {
  for (const cold of ['c', 'e', 'g', 'i']) {
    const cluster = world()
    cluster.add('a', SLOTS).warmed()
    cluster.pass(3 * SILENCE_MS)
    cluster.add('b', SLOTS).warmed()
    cluster.add(cold, SLOTS)
    cluster.pass(3 * SILENCE_MS)
    cluster.nodes.get('a')!.dead = true
    cluster.pass(3 * SILENCE_MS)
    assert.deepEqual(
      cluster.owners(SLOTS),
      SLOTS.map(() => 'b'),
    )
  }
})

test('if an old heartbeat of a dead node is sent again, the other nodes still treat the node as dead', () => {
  const cluster = world()
  const a = cluster.add('a', SLOTS)
  cluster.pass(3 * SILENCE_MS)
  cluster.add('b', SLOTS)
  cluster.pass(SILENCE_MS)
  const recorded = a.beat(cluster.nowMs)
  cluster.say(recorded)
  cluster.nodes.get('a')!.dead = true
  for (let count = 0; count < 10; count++) {
    cluster.pass(BEAT_MS)
    cluster.say(recorded)
  }
  assert.deepEqual(
    cluster.owners(SLOTS),
    SLOTS.map(() => 'b'),
  )
})
