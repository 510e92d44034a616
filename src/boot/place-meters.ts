/** Metrics of the folders to which an exchange writes: free space on their disks, and the age of the last backup. */

import { statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Gauge, type Registry } from 'prom-client'
import type { Settings } from '#config/settings-schema.ts'
import { archiveDirOf, databaseUrlOf } from '#config/thread-data.ts'
import { lastBackupMs } from '#operator/last-backup.ts'
import { parseDatabaseUrl } from '#store/engine/database-url.ts'

const BYTES_PER_MIB = 1024 * 1024

export function registerPlaceMeters(
  registry: Registry,
  settings: Settings,
  nowMs: () => number,
): void {
  const registers = [registry]
  const { dir, freeMiBMin } = settings.data
  const places = placesOf(settings)
  const size = new Gauge({
    name: 'sibyl_disk_size_bytes',
    help: 'Size of the disk of a folder: data (the log), archive, database',
    labelNames: ['place'],
    registers,
  })
  new Gauge({
    name: 'sibyl_disk_free_bytes',
    help: 'Free room on the disk of a folder: data (the log), archive, database',
    labelNames: ['place'],
    registers,
    async collect() {
      this.reset()
      size.reset()
      for (const [place, folder] of places) {
        const room = await statfs(folder).catch(() => undefined)
        if (room === undefined) continue
        this.set({ place }, room.bavail * room.bsize)
        size.set({ place }, room.blocks * room.bsize)
      }
    },
  })
  new Gauge({
    name: 'sibyl_disk_free_bytes_min',
    help: 'With less free room on the disk of the log, only cancels are accepted',
    labelNames: ['place'],
    registers,
  }).set({ place: 'data' }, freeMiBMin * BYTES_PER_MIB)
  new Gauge({
    name: 'sibyl_backup_age_seconds',
    help: 'Age of the last backup; if there is no backup, the age of the log',
    registers,
    collect() {
      const madeMs = lastBackupMs(dir)
      if (madeMs !== undefined) this.set(Math.max(0, nowMs() - madeMs) / 1_000)
    },
  })
}

function placesOf(settings: Settings): readonly (readonly [place: string, folder: string])[] {
  const database = parseDatabaseUrl(databaseUrlOf(settings))
  return [
    ['data', settings.data.dir],
    ...(settings.eventLog.archive ? ([['archive', archiveDirOf(settings)]] as const) : []),
    ...(database.dialect === 'sqlite' ? ([['database', dirname(database.path)]] as const) : []),
  ]
}
