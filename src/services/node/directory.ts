/**
 * Decides which node serves which slot. A slot is a thread that runs on one node at a time. The directory is a state
 * machine without clock, randomness or network. It receives the beats (regular messages) of all nodes, including its
 * own node, and returns the duties of its node. The directory may be wrong for a while. This is safe, because the log's
 * fence decides which node may write.
 *
 * A node claims a slot by naming the slot and an epoch in its beats. The claim of a live node counts while no higher
 * epoch is known for the slot. A slot without a claim goes to the first node, by rendezvous hash, that offers the slot.
 * If the slot was served before, nodes that can serve it within moments come first. NATS also returns a node's own
 * beats to the node. A node takes slots only after its own beats have returned for `silenceMs` without a gap.
 *
 * Some slots are shared evenly: each slot goes to the first node, by rendezvous hash, that has fewer such slots than
 * its share. If that node joins after another node has taken the slot, the slot moves by a planned hand-over. The move
 * starts once the new node has been ready for `moveAfterMs`. Slots move one at a time.
 */

import { createHash } from 'node:crypto'

/** First pause and maximum pause before this node restarts a slot's thread that has failed. */
const FAILED_PAUSE_MS = 500
const FAILED_PAUSE_MS_MAX = 15_000
/** Minimum time for which a thread must serve so that its end does not count as a failure. */
const SERVED_WELL_MS = 10_000
/**
 * Maximum number of times that the wait before a slot's next move doubles. The wait doubles each time the slot moves
 * away from this node.
 */
const MOVE_DOUBLINGS_MAX = 7
/** Maximum number of remembered hashes. */
const WEIGHTS_MAX = 100_000
/**
 * Maximum amount by which a claim's epoch may exceed the highest known epoch of its slot. Claims above this limit are
 * ignored. Each takeover raises the epoch by one, so an epoch near the largest integer would make further takeovers
 * impossible.
 */
const EPOCH_LEAP_MAX = 1_000_000
/** Maximum number of nodes. More must be a mistake, so beats of further nodes are ignored. */
const NODES_MAX = 1_000

type Claim = {
  readonly slot: string
  readonly epoch: number
  /** True if the thread of the slot is ready, so that other threads can open links to it. */
  readonly serving: boolean
  /** True if the node is handing the slot over to another node. */
  readonly releasing?: boolean
}

export type Beat = {
  readonly node: string
  /** Random text that identifies one run of the node; each start creates a new one. */
  readonly incarnation: string
  /** Text of the settings that must be the same on all nodes. */
  readonly shape: string
  /**
   * Number of this beat within its incarnation. Receivers ignore a beat whose number is not new, because it is a
   * replay. Undefined in beats of older versions.
   */
  readonly number?: number
  readonly offers: readonly string[]
  readonly claims: readonly Claim[]
  /** True if the node takes no more slots and releases the slots that it has. */
  readonly leaving: boolean
  /** True if the node can serve a slot within moments. */
  readonly warm?: boolean
  /** True if the node has received beats for long enough to know the other nodes. */
  readonly settled?: boolean
  /** True for the last beat of the node. */
  readonly gone: boolean
}

export type Duty =
  | { readonly type: 'take'; readonly slot: string; readonly epoch: number }
  | { readonly type: 'release'; readonly slot: string; readonly why: string }
  /** Another node's incarnation has left, was replaced by a restart, or counts as dead after silence. */
  | {
      readonly type: 'gone'
      readonly node: string
      readonly incarnation: string
      readonly why: string
    }
  /** This node cannot be part of the cluster with its current settings. */
  | { readonly type: 'unfit'; readonly why: string }

export type Owner = { readonly node: string; readonly incarnation: string; readonly epoch: number }

type DirectoryOptions = {
  readonly node: string
  readonly incarnation: string
  readonly shape: string
  /** Slots that this node's roles can serve. */
  readonly offers: readonly string[]
  /** Time without a beat after which a node counts as dead. */
  readonly silenceMs: number
  /**
   * Slots that may move to their preferred node, which is the first by rendezvous hash. A slot moves once that node has
   * been ready for `moveAfterMs`. A value of 0 means that slots never move.
   */
  readonly moves: readonly string[]
  readonly moveAfterMs: number
}

type Peer = { beat: Beat; lastBeatAtMs: number; warmSinceMs: number | undefined }

type Held = { readonly epoch: number; servingSinceMs: number | undefined; releasing: boolean }

type Failure = { readonly times: number; readonly untilMs: number }

export class Directory {
  readonly #own: DirectoryOptions
  readonly #silenceMs: number
  readonly #peers = new Map<string, Peer>()
  readonly #held = new Map<string, Held>()
  /** Highest epoch ever received for each slot. */
  readonly #epochs = new Map<string, number>()
  readonly #failures = new Map<string, Failure>()
  /** For each slot that moved away from this node: the number of moves, and the earliest time of the next move. */
  readonly #moved = new Map<string, Failure>()
  /** Number of the newest beat of each incarnation, including incarnations that have ended. */
  readonly #numbers = new Map<string, number>()
  #sent = 0
  /** Nodes that were refused because their settings differ. Later beats of these nodes are ignored. */
  readonly #refused = new Set<string>()
  /** Time since which this node gets its own beats back from NATS without a gap; undefined while it gets none. */
  #ownBeatsSinceMs: number | undefined
  #echoAtMs = 0
  /** Weights of nodes for slots (rendezvous hashing): a slot prefers the node with the highest weight. */
  readonly #weights = new Map<string, string>()
  #leaving = false
  #warm = false
  #unfit = false
  /**
   * True once this node has joined: it has received beats for long enough to know the other nodes. Before that, a beat
   * with different settings makes this node unfit for the cluster. Afterwards, this node ignores nodes with different
   * settings.
   */
  #joined = false

  constructor(own: DirectoryOptions) {
    this.#own = own
    this.#silenceMs = own.silenceMs
  }

  /** Returns this node's beat. */
  beat(nowMs: number, gone = false): Beat {
    const { node, incarnation, shape } = this.#own
    return {
      ...{ node, incarnation, shape, leaving: this.#leaving, warm: this.#warm, gone },
      number: ++this.#sent,
      settled: this.isSettled(nowMs),
      offers: this.#leaving ? [] : this.#own.offers.filter((slot) => this.#isOffered(slot, nowMs)),
      claims: [...this.#held].map(([slot, { epoch, servingSinceMs, releasing }]) => {
        return { slot, epoch, serving: servingSinceMs !== undefined, releasing }
      }),
    }
  }

  /** Returns true if NATS has returned this node's beats for `silenceMs`: the node then knows the other nodes. */
  isSettled(nowMs: number): boolean {
    return (
      this.#ownBeatsSinceMs !== undefined &&
      nowMs - this.#ownBeatsSinceMs >= this.#silenceMs &&
      nowMs - this.#echoAtMs < this.#silenceMs
    )
  }

  /** Returns the node that runs the thread of this slot; undefined if no node has the thread ready for links. */
  ownerOf(slot: string): Owner | undefined {
    const { node, incarnation } = this.#own
    const held = this.#held.get(slot)
    let best: (Owner & { serving: boolean }) | undefined =
      held === undefined || held.releasing
        ? undefined
        : { node, incarnation, epoch: held.epoch, serving: held.servingSinceMs !== undefined }
    for (const { beat } of this.#peers.values()) {
      const claim = beat.claims.find((each) => each.slot === slot)
      if (claim === undefined || (best !== undefined && !isHigher(claim, beat.node, best))) continue
      best = {
        node: beat.node,
        incarnation: beat.incarnation,
        epoch: claim.epoch,
        serving: claim.serving,
      }
    }
    return best?.serving === true
      ? { node: best.node, incarnation: best.incarnation, epoch: best.epoch }
      : undefined
  }

  /** Returns all live nodes, this one first. */
  nodes(nowMs: number): readonly Beat[] {
    return [this.beat(nowMs), ...[...this.#peers.values()].map(({ beat }) => beat)]
  }

  receive(received: Beat, nowMs: number): Duty[] {
    this.#noticeBreak(nowMs)
    if (this.#isRepeated(received)) return []
    const beat = { ...received, claims: received.claims.filter((claim) => this.#isCredible(claim)) }
    const { node, incarnation, shape } = this.#own
    if (beat.node === node) {
      if (beat.incarnation !== incarnation) return this.#receivedNamesake(beat, nowMs)
      this.#echoAtMs = nowMs
      this.#ownBeatsSinceMs ??= nowMs
      return this.#decide(nowMs)
    }
    if (beat.shape !== shape) return this.#refuse(beat)
    const duties: Duty[] = []
    const known = this.#peers.get(beat.node)
    const isOther = known !== undefined && known.beat.incarnation !== beat.incarnation
    // `gone` marks the last beat of an incarnation. This beat does not come from the node's known incarnation. It comes
    // from an earlier run, or from a node that tried to join under the same name. So the known incarnation still runs.
    if (beat.gone && isOther) return this.#decide(nowMs)
    if (known !== undefined && (beat.gone || isOther)) {
      duties.push(...this.#forget(known.beat, beat.gone ? 'it has left' : 'it was started again'))
    }
    if (!beat.gone && this.#peers.size < NODES_MAX) {
      const before = known?.beat.incarnation === beat.incarnation ? known.warmSinceMs : undefined
      const warmSinceMs = beat.warm === true ? (before ?? nowMs) : undefined
      this.#peers.set(beat.node, { beat, lastBeatAtMs: nowMs, warmSinceMs })
      for (const { slot, epoch } of beat.claims) this.#note(slot, epoch)
    }
    return [...duties, ...this.#decide(nowMs)]
  }

  tick(nowMs: number): Duty[] {
    this.#noticeBreak(nowMs)
    const duties: Duty[] = []
    for (const { beat, lastBeatAtMs } of [...this.#peers.values()]) {
      const silentMs = nowMs - lastBeatAtMs
      if (silentMs < this.#silenceMs) continue
      duties.push(...this.#forget(beat, `it sent nothing for ${Math.round(silentMs)} ms`))
    }
    duties.push(...this.#decide(nowMs))
    return [...duties, ...this.#moveOne(nowMs)]
  }

  /** Reports that this node has a current copy of the log, so that it can serve a slot within moments. */
  warmed(): void {
    this.#warm = true
  }

  /** Reports that the thread of the slot is ready. */
  serving(slot: string, nowMs: number): void {
    const held = this.#held.get(slot)
    if (held !== undefined) held.servingSinceMs = nowMs
  }

  /** Reports that the slot's thread has ended: it was released, has died, or never became ready. */
  ended(slot: string, nowMs: number): Duty[] {
    const held = this.#held.get(slot)
    if (held === undefined) return []
    this.#held.delete(slot)
    if (!held.releasing) {
      const { servingSinceMs } = held
      const isWell = servingSinceMs !== undefined && nowMs - servingSinceMs >= SERVED_WELL_MS
      const times = (isWell ? 0 : (this.#failures.get(slot)?.times ?? 0)) + 1
      // A thread that was ready is restarted without a pause after its first failure. If the thread keeps ending, the
      // pauses grow.
      const isFirst = servingSinceMs !== undefined && times === 1
      const pauseMs = Math.min(FAILED_PAUSE_MS_MAX, FAILED_PAUSE_MS * 2 ** (times - 1))
      this.#failures.set(slot, { times, untilMs: isFirst ? nowMs : nowMs + pauseMs })
    }
    return this.#decide(nowMs)
  }

  /**
   * Reports that the connection was lost. After that, this node is not settled until NATS has again returned its own
   * beats for `silenceMs`.
   */
  cutOff(): void {
    this.#ownBeatsSinceMs = undefined
  }

  /** Releases all slots; other nodes take them. */
  leave(nowMs: number): Duty[] {
    this.#leaving = true
    return this.#decide(nowMs)
  }

  get holdsNothing(): boolean {
    return this.#held.size === 0
  }

  #noticeBreak(nowMs: number): void {
    const deaf = this.#ownBeatsSinceMs !== undefined && nowMs - this.#echoAtMs >= this.#silenceMs
    if (deaf) this.cutOff()
  }

  /**
   * Returns true if the beat is not newer than the last beat of its incarnation. NATS keeps the order of a node's
   * beats, so such a beat must be a replay by another client.
   */
  #isRepeated({ incarnation, number }: Beat): boolean {
    const before = this.#numbers.get(incarnation)
    if (number === undefined) return before !== undefined
    if (before !== undefined && number <= before) return true
    this.#numbers.delete(incarnation)
    this.#numbers.set(incarnation, number)
    for (const oldest of this.#numbers.keys()) {
      if (this.#numbers.size <= NODES_MAX) break
      this.#numbers.delete(oldest)
    }
    return false
  }

  #receivedNamesake(beat: Beat, nowMs: number): Duty[] {
    if (beat.gone || this.#unfit) return []
    // Another node has the same name. If the other node is settled (knows all nodes) and this node is not, this node
    // leaves. If both are settled, after a network partition, the node with the lower incarnation leaves. If the other
    // node is not settled, this node leaves unless it has joined before.
    const goes =
      beat.settled === true
        ? !this.isSettled(nowMs) || beat.incarnation > this.#own.incarnation
        : !this.#joined
    if (!goes) return []
    this.#unfit = true
    return [
      { type: 'unfit', why: `SIBYL_NODE: another node of the cluster is called ${beat.node}` },
    ]
  }

  #refuse(beat: Beat): Duty[] {
    const { shape } = this.#own
    if (beat.gone || this.#refused.has(beat.node) || this.#refused.size >= NODES_MAX) return []
    this.#refused.add(beat.node)
    if (this.#unfit || this.#joined) return []
    this.#unfit = true
    return [
      {
        type: 'unfit',
        why: `node ${beat.node} has ${beat.shape}, but this node has ${shape}: all nodes need the same values`,
      },
    ]
  }

  #forget({ node, incarnation }: Beat, why: string): Duty[] {
    this.#peers.delete(node)
    return [{ type: 'gone', node, incarnation, why }]
  }

  #isCredible({ slot, epoch }: Claim): boolean {
    return epoch <= (this.#epochs.get(slot) ?? 0) + EPOCH_LEAP_MAX
  }

  #note(slot: string, epoch: number): void {
    if (epoch > (this.#epochs.get(slot) ?? 0)) this.#epochs.set(slot, epoch)
  }

  #decide(nowMs: number): Duty[] {
    const duties: Duty[] = []
    for (const [slot, held] of this.#held) {
      if (held.releasing) continue
      const rival = this.#rivalOf(slot, held.epoch)
      if (rival === undefined && !this.#leaving) continue
      held.releasing = true
      const why = rival === undefined ? 'this node leaves' : `node ${rival} has taken the slot`
      duties.push({ type: 'release', slot, why })
    }
    if (this.#leaving || this.#unfit || !this.isSettled(nowMs)) return duties
    this.#joined = true
    for (const slot of this.#own.offers) {
      if (this.#held.has(slot) || !this.#isOffered(slot, nowMs) || this.#isClaimed(slot)) continue
      if (this.#firstFor(slot, nowMs) !== this.#own.node) continue
      const epoch = (this.#epochs.get(slot) ?? 0) + 1
      this.#note(slot, epoch)
      this.#held.set(slot, { epoch, servingSinceMs: undefined, releasing: false })
      duties.push({ type: 'take', slot, epoch })
    }
    return duties
  }

  /** Releases a slot that prefers another node, unless a movable slot is unserved or any slot is being handed over. */
  #moveOne(nowMs: number): Duty[] {
    const { node, moves, moveAfterMs } = this.#own
    if (moveAfterMs === 0 || this.#leaving || !this.isSettled(nowMs) || !this.#isAtRest()) return []
    const places = this.#places(this.nodes(nowMs))
    for (const slot of moves) {
      const held = this.#held.get(slot)
      const { times, untilMs } = this.#moved.get(slot) ?? { times: 0, untilMs: 0 }
      if (held === undefined || nowMs < untilMs) continue
      const first = places.get(slot) ?? node
      const since = this.#peers.get(first)?.warmSinceMs
      if (first === node || since === undefined || nowMs - since < moveAfterMs) continue
      held.releasing = true
      // Each move doubles the time before the slot may move again. Otherwise the slot would move too often if the other
      // node cannot start it, or often leaves and returns.
      const pauseMs = moveAfterMs * 2 ** Math.min(times + 1, MOVE_DOUBLINGS_MAX)
      this.#moved.set(slot, { times: times + 1, untilMs: nowMs + pauseMs })
      return [{ type: 'release', slot, why: `the preferred node of the slot is ${first}` }]
    }
    return []
  }

  /** Returns true if every movable slot is served and no slot is being handed over. */
  #isAtRest(): boolean {
    const served = new Set<string>()
    const claims = [...this.#peers.values()].flatMap(({ beat }) => beat.claims)
    for (const { slot, serving, releasing } of claims) {
      if (releasing === true) return false
      if (serving) served.add(slot)
    }
    for (const [slot, { servingSinceMs, releasing }] of this.#held) {
      if (releasing) return false
      if (servingSinceMs !== undefined) served.add(slot)
    }
    return this.#own.moves.every((slot) => served.has(slot))
  }

  #isOffered(slot: string, nowMs: number): boolean {
    return (this.#failures.get(slot)?.untilMs ?? 0) <= nowMs
  }

  /**
   * Returns a live node whose claim to the slot overrides this node's claim with the given epoch; undefined if there is
   * none. The claim with the higher epoch overrides the other claim. If the epochs are equal, the claim of the node
   * with the higher name overrides the other claim.
   */
  #rivalOf(slot: string, epoch: number): string | undefined {
    const own = { node: this.#own.node, epoch }
    for (const { beat } of this.#peers.values()) {
      const claim = beat.claims.find((each) => each.slot === slot)
      if (claim !== undefined && isHigher(claim, beat.node, own)) return beat.node
    }
    return undefined
  }

  /**
   * Returns whether another node has a valid claim to the slot. A claim is valid if it has the highest known epoch of
   * the slot. A node whose claim has a lower epoch has lost the slot, even if it has not noticed yet.
   */
  #isClaimed(slot: string): boolean {
    const highest = this.#epochs.get(slot) ?? 0
    for (const { beat } of this.#peers.values()) {
      if (beat.claims.some((each) => each.slot === slot && each.epoch >= highest)) return true
    }
    return false
  }

  #firstFor(slot: string, nowMs: number): string {
    const nodes = this.nodes(nowMs)
    // If the slot was served before, prefer a node with a current copy of the log. On a node without a copy, clients
    // would wait until the log is copied.
    const ready = this.#epochs.has(slot)
      ? nodes.filter(({ warm, offers }) => warm === true && offers.includes(slot))
      : []
    const able = ready.length > 0 ? ready : nodes
    if (this.#own.moves.includes(slot)) return this.#places(able).get(slot) ?? this.#own.node
    const offering = able.filter(({ offers }) => offers.includes(slot))
    return this.#heaviest(slot, offering) ?? this.#own.node
  }

  /**
   * Returns the preferred node of each movable slot. To share the slots evenly, each slot goes to the first node, by
   * rendezvous hash, that has fewer slots than its share.
   */
  #places(nodes: readonly Beat[]): Map<string, string> {
    const { moves } = this.#own
    const able = nodes.filter(({ offers }) => moves.some((slot) => offers.includes(slot)))
    const room = Math.ceil(moves.length / able.length)
    const counts = new Map<string, number>()
    const places = new Map<string, string>()
    for (const slot of moves) {
      const offering = able.filter(({ offers }) => offers.includes(slot))
      const free = offering.filter(({ node }) => (counts.get(node) ?? 0) < room)
      const place = this.#heaviest(slot, free) ?? this.#heaviest(slot, offering)
      if (place === undefined) continue
      places.set(slot, place)
      counts.set(place, (counts.get(place) ?? 0) + 1)
    }
    return places
  }

  #heaviest(slot: string, nodes: readonly Beat[]): string | undefined {
    let first: string | undefined
    for (const { node } of nodes) {
      if (first === undefined || this.#weight(slot, node) > this.#weight(slot, first)) first = node
    }
    return first
  }

  #weight(slot: string, node: string): string {
    const key = `${slot} ${node}`
    const known = this.#weights.get(key)
    if (known !== undefined) return known
    if (this.#weights.size >= WEIGHTS_MAX) this.#weights.clear()
    const weight = createHash('sha256').update(key).digest('hex')
    this.#weights.set(key, weight)
    return weight
  }
}

function isHigher(
  claim: { readonly epoch: number },
  node: string,
  than: { readonly node: string; readonly epoch: number },
): boolean {
  return claim.epoch > than.epoch || (claim.epoch === than.epoch && node > than.node)
}
