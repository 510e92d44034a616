import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { moveAside, writeChainRecord } from '#devnet/chain-record.ts'

test('old data of local chains is deleted except the newest three; old data of other chains is kept', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-aside-'))
  t.after(() => rmSync(folder, { recursive: true }))
  mkdirSync(join(folder, 'aside-of-mine'))
  const put = (day: number, chainId?: number) => {
    writeFileSync(join(folder, 'sibyl.db'), String(day))
    const chain = { genesis: `0x${day}`, url: 'http://127.0.0.1:8545', contracts: {} }
    if (chainId !== undefined) writeChainRecord(folder, { [chainId]: chain })
    moveAside(folder, new Date(Date.UTC(2026, 0, day)))
  }
  put(1, 80_002)
  put(2)
  for (const day of [3, 4, 5, 6, 7]) put(day, 31_337)
  const days = [1, 2, 5, 6, 7].map((day) => `aside-2026-01-0${day}T00-00-00-000Z`)
  assert.deepEqual(readdirSync(folder).sort(), [...days, 'aside-of-mine'])
})
