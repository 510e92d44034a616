import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, statfsSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Registry } from 'prom-client'
import { loadSettings } from '#config/settings.ts'
import { markBackup } from '#operator/last-backup.ts'
import { registerPlaceMeters } from '../../src/boot/place-meters.ts'

const NOW_MS = 1_800_000_000_000

test('metrics report the free space on each disk and the age of the last backup', async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'sibyl-places-'))
  t.after(() => rmSync(dataDir, { recursive: true, force: true }))
  const settings = loadSettings({ SIBYL_DATA_DIR: dataDir, SIBYL_DATA_FREE_MIB_MIN: '7' })
  const registry = new Registry()
  registerPlaceMeters(registry, settings, () => NOW_MS)
  const valuesOf = async (name: string) => {
    const { values = [] } = (await registry.getSingleMetric(name)?.get()) ?? {}
    return Object.fromEntries(values.map(({ labels, value }) => [labels.place ?? '', value]))
  }

  // The exchange creates the archive's folder when it writes the first segment. Until then, the archive has no metrics.
  const { blocks, bsize } = statfsSync(dataDir)
  const free = await valuesOf('sibyl_disk_free_bytes')
  assert.deepEqual(Object.keys(free), ['data', 'database'])
  assert(Number(free.data) > 0 && Number(free.data) < blocks * bsize)
  const size = blocks * bsize
  assert.deepEqual(await valuesOf('sibyl_disk_size_bytes'), { data: size, database: size })
  assert.deepEqual(await valuesOf('sibyl_disk_free_bytes_min'), { data: 7 * 1024 * 1024 })
  mkdirSync(join(dataDir, 'archive'))
  assert.deepEqual(Object.keys(await valuesOf('sibyl_disk_free_bytes')), [
    ...['data', 'archive', 'database'],
  ])

  const ageOf = async () => (await valuesOf('sibyl_backup_age_seconds'))['']
  assert.equal(await ageOf(), 0, 'no log, so nothing to lose')
  mkdirSync(join(dataDir, 'log'))
  const identity = join(dataDir, 'log', 'log.json')
  writeFileSync(identity, '{}')
  utimesSync(identity, NOW_MS / 1_000 - 5_000, NOW_MS / 1_000 - 5_000)
  assert.equal(await ageOf(), 5_000)
  markBackup(dataDir, '/backups/today', new Date(NOW_MS - 60_000).toISOString())
  assert.equal(await ageOf(), 60)
})
