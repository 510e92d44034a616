/**
 * Several writers compete for the partitions of a log while its servers and the writers themselves are killed. In the
 * end every acknowledged append is in the log once, at the acknowledged offset, and all servers agree.
 */

import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { openDatabaseServers } from '#devnet/cluster/database-servers.ts'
import { openMysqlLog } from '#log/server/mysql-log.ts'
import { MysqlServer, parseMysqlAddress } from '#log/server/mysql-server.ts'
import type { Noted } from '../log/flow.ts'
import { eventually } from '../support/eventually.ts'
import { randomFrom } from '../support/random.ts'

export const RACED_PARTITIONS = 2
const WRITERS = 4
const WRITER = fileURLToPath(new URL('./log-writer.ts', import.meta.url))

export type LogCrashReport = {
  kills: number
  serverKills: number
  writerKills: number
  /** All servers at once. */
  blackouts: number
  paused: number
  acknowledged: number
  lost: number
  doubled: number
  misplaced: number
}

type Options = {
  readonly kills: number
  readonly nodes: number
  readonly seed: number
  readonly onKill?: (report: LogCrashReport, what: string) => void
}

export async function raceForLog(options: Options): Promise<LogCrashReport> {
  const random = randomFrom(options.seed)
  const servers = await openDatabaseServers(options.nodes)
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-log-race-'))
  const acknowledged = new Map<string, { partition: number; offset: number }>()
  const report: LogCrashReport = {
    ...{ kills: 0, serverKills: 0, writerKills: 0, blackouts: 0, paused: 0 },
    ...{ acknowledged: 0, lost: 0, doubled: 0, misplaced: 0 },
  }
  const writers: ChildProcess[] = []
  let names = 0

  function startWriter(slot: number): void {
    const name = `w${++names}`
    const own = join(folder, `slot-${slot}`)
    const args = [...process.execArgv, WRITER, servers.url(slot), own, name]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'ignore'] })
    writers[slot] = child
    createInterface({ input: child.stdout! }).on('line', (line) => {
      const [partition = '', offset = '', note = ''] = line.split(' ')
      // A line that a kill has cut off does not count as an acknowledgement.
      if (!note.startsWith(`${name}.`)) return
      acknowledged.set(note, { partition: Number(partition), offset: Number(offset) })
    })
  }

  async function killWriter(slot: number): Promise<void> {
    const child = writers[slot]!
    const ended = new Promise((resolve) => child.once('close', resolve))
    child.kill('SIGKILL')
    await ended
  }

  try {
    for (let slot = 0; slot < WRITERS; slot++) startWriter(slot)
    while (report.kills < options.kills) {
      const before = acknowledged.size
      await eventually(() => assert(acknowledged.size >= before + 20, 'writers go on'), 300_000)
      const what = random.pick(['server', 'server', 'writer', 'writer', 'pause', 'all'])
      report.kills++
      if (what === 'server') {
        report.serverKills++
        await servers.kill([random.int(0, servers.count - 1)])
        await pause(random.int(0, 3_000))
        await servers.heal()
      } else if (what === 'all') {
        report.blackouts++
        await servers.kill(Array.from({ length: servers.count }, (_, node) => node))
        await servers.heal()
      } else if (what === 'writer') {
        report.writerKills++
        const slot = random.int(0, WRITERS - 1)
        await killWriter(slot)
        startWriter(slot)
      } else {
        report.paused++
        const child = writers[random.int(0, WRITERS - 1)]!
        child.kill('SIGSTOP')
        await pause(random.int(200, 5_000))
        child.kill('SIGCONT')
      }
      options.onKill?.({ ...report, acknowledged: acknowledged.size }, what)
    }
    for (const slot of writers.keys()) await killWriter(slot)
    await servers.heal()
    report.acknowledged = acknowledged.size
    await judge()
    return report
  } finally {
    for (const child of writers) child.kill('SIGKILL')
    await servers.dispose()
    rmSync(folder, { recursive: true, force: true })
  }

  async function judge(): Promise<void> {
    const all = new Map<string, { partition: number; offset: number }>()
    for (let partition = 0; partition < RACED_PARTITIONS; partition++) {
      const log = await openMysqlLog<Noted>({
        ...{ url: servers.url(), dataDir: join(folder, `judge-${partition}`) },
        ...{ partitions: RACED_PARTITIONS, own: [partition], checkpointThread: false },
      })
      const { lastOffset } = log.state(partition)
      // This log has just been opened. It reads older rows from the partition's base (a stored copy), and later rows
      // from the database.
      for (const { offset, event } of log.read(
        partition,
        log.state(partition).firstOffset,
        lastOffset,
      )) {
        if (all.has(event.note)) report.doubled++
        all.set(event.note, { partition, offset })
      }
      await log.close()
    }
    for (const [note, place] of acknowledged) {
      const found = all.get(note)
      if (found === undefined) report.lost++
      else if (found.partition !== place.partition || found.offset !== place.offset)
        report.misplaced++
    }
    const tails = []
    for (let node = 0; node < servers.count; node++) {
      const server = new MysqlServer(parseMysqlAddress(servers.urlOf(node))!)
      tails.push(await server.rows('SELECT part, seq, epoch, crc FROM log ORDER BY part, seq'))
      await server.close()
    }
    for (const tail of tails) assert.deepEqual(tail, tails[0], 'all servers hold the same rows')
  }
}
