/**
 * Leases for roles that one node at a time may hold, stored in the database. A thread whose role another node holds
 * stands by, which is not a failure; once it has the lease, the role starts as after any restart. Writes of a role
 * carry the epoch of its lease, so a lost lease writes nothing, whatever this node believes (`store/engine/fence.ts`).
 *
 * A node that learns that it lost a lease stops the role at once. A node that cannot reach the database continues,
 * because perhaps no other node took the lease. But nothing that requires the lease is sent while it is in doubt
 * (`isSure`).
 *
 * A database file belongs to one process: there every role starts at once without a lease.
 */

import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { Gauge } from 'prom-client'
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
import type { Kit } from './kit.ts'
import type { Adapters } from './world.ts'

/** A lease expires this long after its last renewal. With the next constant: 7 s until another node has it. */
const LEASE_MS = 6_000
/** Interval of renewing a lease, or of requesting it while standing by. */
const LOOK_MS = 1_000
const HOLDER_CHARS_MAX = 255
/** Leases taken within this time share one log line: a store takes one per partition. */
const TAKEN_TOLD_MS = 250

type Leases = {
  /**
   * Starts the role as soon as its lease is held; resolves when it has started or stands by. `lost` is called when
   * another node has taken it; by default the thread ends.
   */
  hold(
    role: string,
    begin: (lease: Lease) => Promise<void> | void,
    lost?: () => void,
  ): Promise<void>
  /** Returns the store's write queue for the holder of the role. */
  writeQueue(role: string, writeQueue: WriteQueueRef): WriteQueueRef
  /** Returns whether no other node can hold the role now. */
  isSure(role: string): boolean
  /** Returns what the thread waits for, or an empty string; waiting is not a failure. */
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
  /** No other node can have taken it before this time, on the monotonic clock. */
  sureUntilMs: number
  /** Current holder; empty if unknown. */
  heldBy: string
}

export function makeLeases(
  data: ThreadData,
  kit: Kit,
  world: Pick<Adapters, 'openDatabase'>,
): Leases {
  const url = databaseUrlOf(data.settings)
  if (!isShared(url)) return ownLeases
  return sharedLeases(() => world.openDatabase(url, { connectionsMax: 1 }), holderOf(data), kit)
}

/** All roles belong to this process. */
const ownLeases: Leases = {
  hold: async (role, begin) => begin({ role, epoch: 0 }),
  writeQueue: (_role, writeQueue) => writeQueue,
  isSure: () => true,
  standby: () => '',
  close: async () => {},
}

/** Identifies a process: a data folder is used by one process of a machine at a time. */
function holderOf({ settings }: ThreadData): string {
  const { node, name } = settings.cluster
  const own = node === '' ? `${hostname()}:${resolve(settings.data.dir)}` : `${name}/${node}`
  return own.slice(-HOLDER_CHARS_MAX)
}

function sharedLeases(open: () => Promise<Database>, holder: string, kit: Kit): Leases {
  const { log, detach, monotonicMs, clock } = kit
  const roles = new Map<string, Role>()
  let opening: Promise<Database> | undefined
  let looking = false
  let closed = false
  let untold: Lease[] = []

  new Gauge({
    name: 'sibyl_lease_held',
    help: '1 while this node plays a role that one node at a time may play, 0 while it stands by for it',
    labelNames: ['role'],
    registers: [kit.registry],
    collect() {
      for (const [role, { lease }] of roles) this.set({ role }, lease === undefined ? 0 : 1)
    },
  })
  new Gauge({
    name: 'sibyl_lease_epoch',
    help: 'How often a role that this node plays has changed hands',
    labelNames: ['role'],
    registers: [kit.registry],
    collect() {
      this.reset()
      for (const [role, { lease }] of roles) {
        if (lease !== undefined) this.set({ role }, lease.epoch)
      }
    },
  })

  /** Its own connection: other writes must not delay a renewal. */
  async function database(): Promise<Database> {
    if (closed) throw closedFault()
    opening ??= open().catch((error: unknown) => {
      opening = undefined
      throw error
    })
    return opening
  }

  function lose(role: Role): void {
    const { name, lease } = role
    if (lease === undefined || closed) return
    role.lease = undefined
    const why = `another node has taken the lease of ${name} after epoch ${lease.epoch}`
    log.warn({ role: name, epoch: lease.epoch }, why)
    // By default the thread ends; it is restarted and stands by.
    if (role.lost === undefined) throw new Error(why)
    role.lost()
  }

  async function take(role: Role): Promise<void> {
    if (closed) return
    const askedAtMs = monotonicMs()
    role.asking = true
    try {
      const taken = await takeLease(await database(), { role: role.name, holder, forMs: LEASE_MS })
      if ('heldBy' in taken) {
        if (role.heldBy !== taken.heldBy) {
          log.info({ role: role.name, heldBy: taken.heldBy }, `stands by for ${role.name}`)
        }
        role.heldBy = taken.heldBy
        return
      }
      role.lease = { role: role.name, epoch: taken.epoch }
      role.sureUntilMs = askedAtMs + LEASE_MS
    } catch (error) {
      if (!(error instanceof Fault && error.retryable)) throw error
      log.debug({ role: role.name, why: error.message }, 'a lease could not be asked for')
      role.heldBy = ''
      return
    } finally {
      role.asking = false
    }
    if (closed) return
    tellTaken(role.lease)
    await role.begin(role.lease)
  }

  function tellTaken(lease: Lease): void {
    untold.push(lease)
    if (untold.length === 1) clock.after(TAKEN_TOLD_MS, tellUntold)
  }

  /** Waits while more leases are requested, so that those of a start are one log line, however slow the server is. */
  function tellUntold(): void {
    if (!closed && [...roles.values()].some(({ asking }) => asking)) {
      clock.after(TAKEN_TOLD_MS, tellUntold)
      return
    }
    const [first] = untold
    const leases = Object.fromEntries(untold.map(({ role, epoch }) => [role, epoch]))
    const which = untold.length === 1 ? `the lease of ${first?.role}` : `${untold.length} leases`
    untold = []
    log.info({ leases }, `holds ${which}`)
  }

  async function renew(): Promise<void> {
    const held = [...roles.values()].filter(({ lease }) => lease !== undefined)
    const leases = held.flatMap(({ lease }) => (lease === undefined ? [] : [lease]))
    if (leases.length === 0) return
    const askedAtMs = monotonicMs()
    let kept: readonly Lease[]
    try {
      kept = await renewLeases(await database(), leases, LEASE_MS)
    } catch (error) {
      if (!(error instanceof Fault && error.retryable)) throw error
      log.debug({ why: error.message }, 'leases could not be renewed')
      return
    }
    for (const role of held) {
      const isKept = kept.some(
        ({ role: name, epoch }) => name === role.name && epoch === role.lease?.epoch,
      )
      if (isKept) role.sureUntilMs = askedAtMs + LEASE_MS
      else lose(role)
    }
  }

  async function look(): Promise<void> {
    if (looking || closed) return
    looking = true
    try {
      await renew()
      for (const role of roles.values()) {
        // Starting may take long, and leases must be renewed meanwhile.
        if (role.lease === undefined && !role.asking && !closed) detach(take(role))
      }
    } finally {
      looking = false
    }
  }

  return {
    async hold(name, begin, lost) {
      if (closed) return
      const role: Role = {
        ...{ name, begin, lost, lease: undefined, asking: false },
        ...{ sureUntilMs: 0, heldBy: '' },
      }
      if (roles.size === 0) kit.every(LOOK_MS, () => detach(look()))
      roles.set(name, role)
      await take(role)
    },
    writeQueue: (name, writeQueue) => ({
      async ask(type, task, deadlineMs) {
        const role = roles.get(name)
        const lease = role?.lease ?? { role: name, epoch: 0 }
        const reply = (await writeQueue.ask(type, { ...task, lease }, deadlineMs)) as
          | StoreReply
          | object
        const isLost = 'code' in reply && reply.code === LEASE_LOST
        if (isLost && role?.lease?.epoch === lease.epoch) kit.timers.soon(() => lose(role))
        return reply
      },
    }),
    isSure(name) {
      const role = roles.get(name)
      return role?.lease !== undefined && monotonicMs() < role.sureUntilMs
    },
    standby() {
      for (const { name, lease, heldBy } of roles.values()) {
        if (lease !== undefined) continue
        // The holder's name is only for the log: strangers can read this text.
        const why = heldBy === '' ? 'it is not known who has' : 'another node has'
        return `${STANDBY}: ${why} the lease of ${name}`
      }
      return ''
    },
    async close() {
      closed = true
      const opened = await opening?.catch(() => undefined)
      if (opened === undefined) return
      const leases = [...roles.values()].flatMap(({ lease }) => lease ?? [])
      // If this fails, the leases expire.
      await giveLeases(opened, leases).catch(() => {})
      await closeDatabase(opened)
    },
  }
}
