/**
 * Who serves what: a state machine without clock, chance or network. It hears the beats of all nodes,
 * its own among them, and answers what this node has to do. It only says who should serve; who may
 * write is decided by the log's fence, so it may be wrong for a while.
 *
 * A slot is a thread that one node at a time runs. A live node's claim to it holds as long as its epoch is
 * the highest that was heard of the slot; without one, the slot falls to the first by rendezvous hash of
 * the nodes that offer it. A node that has just come, or that did not hear itself, listens before it takes.
 *
 * Some slots are shared evenly, each with the first by that hash that has room for it, and move there when that node
 * comes later or comes back: one at a time, by the hand-over of a planned end, when it has been ready for long enough.
 */

import { createHash } from 'node:crypto'

/** The pause before a slot is offered again whose thread did not start here, and its limit. */
const FAILED_PAUSE_MS = 500
const FAILED_PAUSE_MS_MAX = 15_000
/** Who has served for so long has not failed when it ends. */
const SERVED_WELL_MS = 10_000
/** A slot that came back after it had moved waits twice as long, at most so many times. */
const MOVE_DOUBLINGS_MAX = 7
/** Hashes that are kept. */
const WEIGHTS_MAX = 100_000
/**
 * A claim that is further above the highest known epoch of its slot is ignored: each takeover raises the epoch by
 * one. A claim near the largest integer would leave no epoch for the next takeover.
 */
const EPOCH_LEAP_MAX = 1_000_000
/** More nodes than this are a mistake; further ones are not heard. */
const NODES_MAX = 1_000

type Claim = {
  readonly slot: string
  readonly epoch: number
  /** Whether its thread is ready for links. */
  readonly serving: boolean
  /** It is about to be served by another. */
  readonly releasing?: boolean
}

export type Beat = {
  readonly node: string
  /** Random for each start of the node. */
  readonly incarnation: string
  /** What all nodes of a cluster must have in common. */
  readonly shape: string
  readonly offers: readonly string[]
  readonly claims: readonly Claim[]
  /** It takes nothing new and lets go of what it has. */
  readonly leaving: boolean
  /** It has all that it needs to serve a slot within moments. */
  readonly warm?: boolean
  /** It has listened for long enough to know who is there. */
  readonly settled?: boolean
  /** This is its last beat. */
  readonly gone: boolean
}

export type Duty =
  | { readonly type: 'take'; readonly slot: string; readonly epoch: number }
  | { readonly type: 'release'; readonly slot: string; readonly why: string }
  /** Nothing comes from this incarnation of a node any more. */
  | {
      readonly type: 'gone'
      readonly node: string
      readonly incarnation: string
      readonly why: string
    }
  /** This node cannot be part of the cluster as it is. */
  | { readonly type: 'unfit'; readonly why: string }

export type Owner = { readonly node: string; readonly incarnation: string; readonly epoch: number }

type DirectoryOptions = {
  readonly node: string
  readonly incarnation: string
  readonly shape: string
  /** The slots that the roles of this node can serve. */
  readonly offers: readonly string[]
  /** A node that was not heard for so long is gone. */
  readonly silenceMs: number
  /** Which slots of the cluster move to their first node, and after how long; 0: none does. */
  readonly moves: readonly string[]
  readonly moveAfterMs: number
}

type Peer = { beat: Beat; heardAtMs: number; warmSinceMs: number | undefined }

type Held = { readonly epoch: number; servingSinceMs: number | undefined; releasing: boolean }

type Failure = { readonly times: number; readonly untilMs: number }

export class Directory {
  readonly #own: DirectoryOptions
  readonly #silenceMs: number
  readonly #peers = new Map<string, Peer>()
  readonly #held = new Map<string, Held>()
  /** The highest epoch that was ever heard of a slot. */
  readonly #epochs = new Map<string, number>()
  readonly #failures = new Map<string, Failure>()
  /** Slots that have moved from here: how often, and when they may again. */
  readonly #moved = new Map<string, Failure>()
  /** Nodes that were refused, and are told of once. */
  readonly #refused = new Set<string>()
  /** Since when it hears itself without a break; undefined while it does not. */
  #hearsSinceMs: number | undefined
  #echoAtMs = 0
  /** Rendezvous hash: of several nodes the one with the highest weight for a slot is its first. */
  readonly #weights = new Map<string, string>()
  #leaving = false
  #warm = false
  #unfit = false
  /** Whether it has ever been settled: from then on it is the others that do not fit. */
  #joined = false

  constructor(own: DirectoryOptions) {
    this.#own = own
    this.#silenceMs = own.silenceMs
  }

  /** What this node says of itself. */
  beat(nowMs: number, gone = false): Beat {
    const { node, incarnation, shape } = this.#own
    return {
      ...{ node, incarnation, shape, leaving: this.#leaving, warm: this.#warm, gone },
      settled: this.isSettled(nowMs),
      offers: this.#leaving ? [] : this.#own.offers.filter((slot) => this.#isOffered(slot, nowMs)),
      claims: [...this.#held].map(([slot, { epoch, servingSinceMs, releasing }]) => {
        return { slot, epoch, serving: servingSinceMs !== undefined, releasing }
      }),
    }
  }

  /** Whether it has heard itself long enough to know who is there. */
  isSettled(nowMs: number): boolean {
    return (
      this.#hearsSinceMs !== undefined &&
      nowMs - this.#hearsSinceMs >= this.#silenceMs &&
      nowMs - this.#echoAtMs < this.#silenceMs
    )
  }

  /** The node whose thread of this slot can be linked to. */
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

  /** Everybody who is there, this node first. */
  nodes(nowMs: number): readonly Beat[] {
    return [this.beat(nowMs), ...[...this.#peers.values()].map(({ beat }) => beat)]
  }

  hear(heard: Beat, nowMs: number): Duty[] {
    this.#noticeBreak(nowMs)
    const beat = { ...heard, claims: heard.claims.filter((claim) => this.#isCredible(claim)) }
    const { node, incarnation, shape } = this.#own
    if (beat.node === node) {
      if (beat.incarnation !== incarnation) return this.#heardNamesake(beat, nowMs)
      this.#echoAtMs = nowMs
      this.#hearsSinceMs ??= nowMs
      return this.#decide(nowMs)
    }
    if (beat.shape !== shape) return this.#refuse(beat)
    const duties: Duty[] = []
    const known = this.#peers.get(beat.node)
    const isOther = known !== undefined && known.beat.incarnation !== beat.incarnation
    // An earlier incarnation, or a newcomer with a name that is taken, says goodbye for itself only.
    if (beat.gone && isOther) return this.#decide(nowMs)
    if (known !== undefined && (beat.gone || isOther)) {
      duties.push(...this.#forget(known.beat, beat.gone ? 'it has left' : 'it was started again'))
    }
    if (!beat.gone && this.#peers.size < NODES_MAX) {
      const before = known?.beat.incarnation === beat.incarnation ? known.warmSinceMs : undefined
      const warmSinceMs = beat.warm === true ? (before ?? nowMs) : undefined
      this.#peers.set(beat.node, { beat, heardAtMs: nowMs, warmSinceMs })
      for (const { slot, epoch } of beat.claims) this.#note(slot, epoch)
    }
    return [...duties, ...this.#decide(nowMs)]
  }

  tick(nowMs: number): Duty[] {
    this.#noticeBreak(nowMs)
    const duties: Duty[] = []
    for (const { beat, heardAtMs } of [...this.#peers.values()]) {
      const silentMs = nowMs - heardAtMs
      if (silentMs < this.#silenceMs) continue
      duties.push(...this.#forget(beat, `it was not heard for ${Math.round(silentMs)} ms`))
    }
    duties.push(...this.#decide(nowMs))
    return [...duties, ...this.#moveOne(nowMs)]
  }

  /** This node has all that it needs to serve a slot within moments. */
  warmed(): void {
    this.#warm = true
  }

  /** Its thread is ready. */
  serving(slot: string, nowMs: number): void {
    const held = this.#held.get(slot)
    if (held !== undefined) held.servingSinceMs = nowMs
  }

  /** Its thread is no more: released, dead, or never ready. */
  ended(slot: string, nowMs: number): Duty[] {
    const held = this.#held.get(slot)
    if (held === undefined) return []
    this.#held.delete(slot)
    if (!held.releasing) {
      const { servingSinceMs } = held
      const isWell = servingSinceMs !== undefined && nowMs - servingSinceMs >= SERVED_WELL_MS
      const times = (isWell ? 0 : (this.#failures.get(slot)?.times ?? 0)) + 1
      // One that has served is started again at once; one that dies again and again waits.
      const isFirst = servingSinceMs !== undefined && times === 1
      const pauseMs = Math.min(FAILED_PAUSE_MS_MAX, FAILED_PAUSE_MS * 2 ** (times - 1))
      this.#failures.set(slot, { times, untilMs: isFirst ? nowMs : nowMs + pauseMs })
    }
    return this.#decide(nowMs)
  }

  /** The connection is lost: what was heard before says nothing about now. */
  cutOff(): void {
    this.#hearsSinceMs = undefined
  }

  /** Lets go of everything; others take it. */
  leave(nowMs: number): Duty[] {
    this.#leaving = true
    return this.#decide(nowMs)
  }

  get holdsNothing(): boolean {
    return this.#held.size === 0
  }

  #noticeBreak(nowMs: number): void {
    const deaf = this.#hearsSinceMs !== undefined && nowMs - this.#echoAtMs >= this.#silenceMs
    if (deaf) this.cutOff()
  }

  #heardNamesake(beat: Beat, nowMs: number): Duty[] {
    if (beat.gone || this.#unfit) return []
    // Who came second goes: it has not listened for long yet. So does who was away while the other joined; and of two
    // that a cut network has kept apart, one.
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
      { type: 'unfit', why: `node ${beat.node} has ${beat.shape}, and this one has ${shape}` },
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
      const why = rival === undefined ? 'this node leaves' : `${rival} has taken it`
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

  /** Lets go of one slot that belongs to another node, where nothing else is on its way. */
  #moveOne(nowMs: number): Duty[] {
    const { node, moves, moveAfterMs } = this.#own
    if (moveAfterMs === 0 || this.#leaving || !this.isSettled(nowMs) || !this.#isAtRest()) return []
    const places = this.#places(nowMs)
    for (const slot of moves) {
      const held = this.#held.get(slot)
      const { times, untilMs } = this.#moved.get(slot) ?? { times: 0, untilMs: 0 }
      if (held === undefined || nowMs < untilMs) continue
      const first = places.get(slot) ?? node
      const since = this.#peers.get(first)?.warmSinceMs
      if (first === node || since === undefined || nowMs - since < moveAfterMs) continue
      held.releasing = true
      // Who could not start it there, or comes and goes, is not asked again and again.
      const pauseMs = moveAfterMs * 2 ** Math.min(times + 1, MOVE_DOUBLINGS_MAX)
      this.#moved.set(slot, { times: times + 1, untilMs: nowMs + pauseMs })
      return [{ type: 'release', slot, why: `it belongs to ${first}` }]
    }
    return []
  }

  /** Whether each slot that may move is served, and none is on its way. */
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

  /** A live node whose claim is above this one's. */
  #rivalOf(slot: string, epoch: number): string | undefined {
    const own = { node: this.#own.node, epoch }
    for (const { beat } of this.#peers.values()) {
      const claim = beat.claims.find((each) => each.slot === slot)
      if (claim !== undefined && isHigher(claim, beat.node, own)) return beat.node
    }
    return undefined
  }

  /** A claim below the highest epoch is one that its node has lost and does not know of yet. */
  #isClaimed(slot: string): boolean {
    const highest = this.#epochs.get(slot) ?? 0
    for (const { beat } of this.#peers.values()) {
      if (beat.claims.some((each) => each.slot === slot && each.epoch >= highest)) return true
    }
    return false
  }

  #firstFor(slot: string, nowMs: number): string {
    if (this.#own.moves.includes(slot)) return this.#places(nowMs).get(slot) ?? this.#own.node
    const offering = this.nodes(nowMs).filter(({ offers }) => offers.includes(slot))
    return this.#heaviest(slot, offering) ?? this.#own.node
  }

  /** Slots that may move are shared evenly: each belongs to the first by the hash that has room for it. */
  #places(nowMs: number): Map<string, string> {
    const { moves } = this.#own
    const able = this.nodes(nowMs).filter(({ offers }) =>
      moves.some((slot) => offers.includes(slot)),
    )
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
