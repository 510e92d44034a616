/**
 * Leases of roles: only the node that has the lease of a role does the role's work. The leases are stored in the
 * database. While another node has the lease, a thread is on standby, which is not a failure. Once this node has the
 * lease, the role starts as after any restart. Writes of a role carry the epoch of its lease, so a node that has lost
 * the lease cannot write (`store/engine/fence.ts`).
 *
 * A node that learns that it has lost a lease stops the role at once. A node that cannot reach the database continues
 * the role, because perhaps no other node has taken the lease. But while the lease is in doubt, the node sends nothing
 * that requires the lease (`isSure`).
 *
 * A database in a file belongs to one process. With such a database, every role starts at once without a lease.
 */

import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { databaseUrlOf, type ThreadData } from '#config/thread-data.ts'
import { Fault } from '#domain/fault.ts'
import { STANDBY } from '#runtime/thread.ts'
import { closeDatabase, type Database } from '#store/engine/database.ts'
import { isShared } from '#store/engine/database-url.ts'
import { LEASE_LOST, type Lease } from '#store/engine/fence.ts'
import type { StoreReply } from '#store/engine/reply.ts'
import { closedFault } from '#store/engine/store-fault.ts'
import { giveLeases, renewLeases, takeLease } from '#store/leases/leases.ts'
import type { WriteQueueRef } from '#store/writes/ask-write.ts'
import type { ThreadContext } from './kit.ts'
import { leaseMeters } from './lease-metrics.ts'
import type { Adapters } from './world.ts'

/**
 * Time from the last renewal until a lease expires. A standby node requests the lease every `LOOK_MS`, so it can take
 * the lease at most 7 s after the last renewal.
 */
const LEASE_MS = 6_000
/** Interval at which an owner renews its lease, and at which a standby node requests the lease. */
const LOOK_MS = 1_000
const HOLDER_CHARS_MAX = 255
/**
 * If the database does not answer about leases for this time, a warning is logged. The warning is repeated after each
 * further period of this length.
 */
const SILENT_MS = 10_000
/** Leases taken within this time are logged in one line, because a store takes one for each partition. */
const TAKEN_LOGGED_MS = 250

type Leases = {
  /**
   * Starts the role once this node has its lease. Resolves when the role has started or the node is on standby. `lost`
   * is called if another node takes the lease later; without `lost`, the thread ends.
   */
  hold(
    role: string,
    begin: (lease: Lease) => Promise<void> | void,
    lost?: () => void,
  ): Promise<void>
  /** Returns the store's write queue for a role: its writes carry the epoch of the role's lease. */
  writeQueue(role: string, writeQueue: WriteQueueRef): WriteQueueRef
  /** Returns true while it is certain that no other node has the lease of the role. */
  isSure(role: string): boolean
  /** Returns why this thread is on standby; empty if it is not. Standby is not a failure. */
  standby(): string
  /** Releases all leases. */
  close(): Promise<void>
}

type Role = {
  readonly name: string
  readonly begin: (lease: Lease) => Promise<void> | void
  readonly lost: (() => void) | undefined
  lease: Lease | undefined
  asking: boolean
  /** Time on the monotonic clock before which no other node can have taken the lease. */
  sureUntilMs: number
  /** Time at which the last renewal was requested. */
  renewedAtMs: number
  /** Current holder; empty if unknown. */
  heldBy: string
}

export function makeLeases(
  data: ThreadData,
  kit: ThreadContext,
  world: Pick<Adapters, 'openDatabase'>,
): Leases {
  const url = databaseUrlOf(data.settings)
  if (!isShared(url)) return ownLeases
  return sharedLeases(() => world.openDatabase(url, { connectionsMax: 1 }), holderOf(data), kit)
}

/** Leases without a shared database: all roles belong to this process. */
const ownLeases: Leases = {
  hold: async (role, begin) => begin({ role, epoch: 0 }),
  writeQueue: (_role, writeQueue) => writeQueue,
  isSure: () => true,
  standby: () => '',
  close: async () => {},
}

/**
 * Returns a name that identifies this process among all nodes. Without a configured node name, the name consists of the
 * host and the data folder, which only one process at a time uses.
 */
function holderOf({ settings }: ThreadData): string {
  const { node, name } = settings.cluster
  const own = node === '' ? `${hostname()}:${resolve(settings.data.dir)}` : `${name}/${node}`
  return own.slice(-HOLDER_CHARS_MAX)
}

function renewed(role: Role, askedAtMs: number): void {
  role.renewedAtMs = askedAtMs
  role.sureUntilMs = askedAtMs + LEASE_MS
}

function sharedLeases(open: () => Promise<Database>, holder: string, kit: ThreadContext): Leases {
  const { log, detach, monotonicMs } = kit
  const roles = new Map<string, Role>()
  const connection = makeConnection(open)
  let looking = false
  let closed = false
  const silence = makeSilenceWatch(kit)
  const isAsking = () => !closed && [...roles.values()].some(({ asking }) => asking)
  const tellTaken = makeAnnouncements(kit, isAsking)

  leaseMeters(kit, roles, LEASE_MS)

  const lose = (role: Role): void => (closed ? undefined : loseLease(role, log))

  async function take(role: Role): Promise<void> {
    if (closed) return
    const askedAtMs = monotonicMs()
    role.asking = true
    try {
      const asked = { role: role.name, holder, forMs: LEASE_MS }
      const taken = await takeLease(await connection.get(), asked)
      silence.answered()
      if ('heldBy' in taken) {
        standBy(role, taken.heldBy, log)
        return
      }
      role.lease = { role: role.name, epoch: taken.epoch }
      renewed(role, askedAtMs)
    } catch (error) {
      if (!(error instanceof Fault && error.retryable)) throw error
      silence.failed(error.message)
      role.heldBy = ''
      return
    } finally {
      role.asking = false
    }
    if (closed) return
    tellTaken(role.lease)
    await role.begin(role.lease)
  }

  async function renew(): Promise<void> {
    const held = [...roles.values()].filter(({ lease }) => lease !== undefined)
    const leases = held.flatMap(({ lease }) => (lease === undefined ? [] : [lease]))
    if (leases.length === 0) return
    const askedAtMs = monotonicMs()
    const kept = await keptOf(leases, connection.get, silence)
    if (kept === undefined) return
    for (const role of held) {
      const isKept = kept.some(
        ({ role: name, epoch }) => name === role.name && epoch === role.lease?.epoch,
      )
      if (isKept) renewed(role, askedAtMs)
      else lose(role)
    }
  }

  async function look(): Promise<void> {
    if (!closed) silence.watch(roles.keys())
    if (looking || closed) return
    looking = true
    try {
      await renew()
      for (const role of roles.values()) {
        // The start of a role is not awaited, because it may take long, and leases must be renewed meanwhile.
        if (role.lease === undefined && !role.asking && !closed) detach(take(role))
      }
    } finally {
      looking = false
    }
  }

  return {
    async hold(name, begin, lost) {
      if (closed) return
      const role = newRole(name, begin, lost)
      if (roles.size === 0) {
        silence.answered()
        kit.every(LOOK_MS, () => detach(look()))
      }
      roles.set(name, role)
      await take(role)
    },
    writeQueue: (name, writeQueue) =>
      fencedQueue(writeQueue, name, {
        roleOf: () => roles.get(name),
        lose: (role) => kit.timers.soon(() => lose(role)),
      }),
    isSure(name) {
      const role = roles.get(name)
      return role?.lease !== undefined && monotonicMs() < role.sureUntilMs
    },
    standby: () => standbyOf(roles.values()),
    async close() {
      closed = true
      await connection.close([...roles.values()].flatMap(({ lease }) => lease ?? []))
    },
  }
}

/** Opens a connection for leases only, so that other writes do not delay a renewal. */
function makeConnection(open: () => Promise<Database>) {
  let opening: Promise<Database> | undefined
  let closed = false
  return {
    async get(): Promise<Database> {
      if (closed) throw closedFault()
      opening ??= open().catch((error: unknown) => {
        opening = undefined
        throw error
      })
      return opening
    },
    async close(leases: readonly Lease[]): Promise<void> {
      closed = true
      const opened = await opening?.catch(() => undefined)
      if (opened === undefined) return
      // If releasing the leases fails, they expire.
      await giveLeases(opened, leases).catch(() => {})
      await closeDatabase(opened)
    },
  }
}

type SilenceWatch = ReturnType<typeof makeSilenceWatch>

/**
 * Logs a warning if the database has not answered about leases for `SILENT_MS`. Until it answers, this node
 * starts no further role, and is not certain that it still has its leases.
 */
function makeSilenceWatch({ log, monotonicMs }: Pick<ThreadContext, 'log' | 'monotonicMs'>) {
  let answeredMs = 0
  let trouble = ''
  return {
    answered(): void {
      answeredMs = monotonicMs()
      trouble = ''
    },
    failed(why: string): void {
      trouble = why
    },
    watch(roles: Iterable<string>): void {
      if (monotonicMs() - answeredMs < SILENT_MS) return
      answeredMs = monotonicMs()
      const why = trouble || 'no answer'
      log.warn({ roles: [...roles], why }, `no lease was taken or renewed: ${why}`)
    },
  }
}

/** Logs the leases that this node takes. Leases taken within `TAKEN_LOGGED_MS` are logged in one line. */
function makeAnnouncements(
  { log, clock }: Pick<ThreadContext, 'log' | 'clock'>,
  isAsking: () => boolean,
): (lease: Lease) => void {
  let unlogged: Lease[] = []
  function logTaken(): void {
    if (isAsking()) {
      clock.after(TAKEN_LOGGED_MS, logTaken)
      return
    }
    const [first] = unlogged
    const leases = Object.fromEntries(unlogged.map(({ role, epoch }) => [role, epoch]))
    const which =
      unlogged.length === 1 ? `the lease of ${first?.role}` : `${unlogged.length} leases`
    unlogged = []
    log.info({ leases }, `this node has taken ${which}`)
  }
  return (lease) => {
    unlogged.push(lease)
    if (unlogged.length === 1) clock.after(TAKEN_LOGGED_MS, logTaken)
  }
}

/** Renews leases; returns those that this node still has, or undefined if the database is unavailable. */
async function keptOf(
  leases: readonly Lease[],
  database: () => Promise<Database>,
  silence: SilenceWatch,
): Promise<readonly Lease[] | undefined> {
  try {
    const kept = await renewLeases(await database(), leases, LEASE_MS)
    silence.answered()
    return kept
  } catch (error) {
    if (!(error instanceof Fault && error.retryable)) throw error
    silence.failed(error.message)
    return undefined
  }
}

/**
 * Returns a write queue that adds the lease of its role to each write. If the database’s fence refuses a write, the
 * lease is lost.
 */
function fencedQueue(
  writeQueue: Parameters<Leases['writeQueue']>[1],
  name: string,
  {
    roleOf,
    lose,
  }: { readonly roleOf: () => Role | undefined; readonly lose: (role: Role) => void },
): ReturnType<Leases['writeQueue']> {
  return {
    async ask(type, task, deadlineMs) {
      const role = roleOf()
      const lease = role?.lease ?? { role: name, epoch: 0 }
      const reply = (await writeQueue.ask(type, { ...task, lease }, deadlineMs)) as
        | StoreReply
        | object
      const isLost = 'code' in reply && reply.code === LEASE_LOST
      if (isLost && role?.lease?.epoch === lease.epoch) lose(role)
      return reply
    },
  }
}

function standBy(role: Role, heldBy: string, log: ThreadContext['log']): void {
  if (role.heldBy !== heldBy)
    log.info({ role: role.name, heldBy }, `this node is on standby for ${role.name}`)
  role.heldBy = heldBy
}

/**
 * Returns why a thread is on standby: it does not have all of its leases. Returns an empty string if the thread has all
 * of them.
 */
function standbyOf(roles: Iterable<Role>): string {
  for (const { name, lease, heldBy } of roles) {
    if (lease !== undefined) continue
    // Strangers can read this text, so only the program's log names the node that has the lease.
    const why = heldBy === '' ? 'an unknown node has' : 'another node has'
    return `${STANDBY}: ${why} the lease of ${name}`
  }
  return ''
}

function newRole(name: string, begin: Role['begin'], lost: Role['lost']): Role {
  return {
    ...{ name, begin, lost, lease: undefined, asking: false },
    ...{ sureUntilMs: 0, renewedAtMs: 0, heldBy: '' },
  }
}

function loseLease(role: Role, log: ThreadContext['log']): void {
  const { name, lease } = role
  if (lease === undefined) return
  role.lease = undefined
  const why = `another node has taken the lease of ${name} after epoch ${lease.epoch}`
  log.warn({ role: name, epoch: lease.epoch }, why)
  // Without `lost`, the thread ends. It is then restarted, and is on standby.
  if (role.lost === undefined) throw new Error(why)
  role.lost()
}
