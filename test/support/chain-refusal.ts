/**
 * Returns the error of the step that opens an exchange's chains. An exchange whose start fails at this step prints the
 * same text on one line, which `scenario/chain-settings.test.ts` tests.
 */

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadSettings } from '#config/settings.ts'
import { makeClockMemory } from '#runtime/clock.ts'
import { openChains } from '../../src/boot/open-chains.ts'
import type { Environment } from './exchange.ts'

export async function chainRefusal(environment: Environment): Promise<string> {
  const dataDir = mkdtempSync(join(tmpdir(), 'sibyl-chains-'))
  const settings = loadSettings({ SIBYL_DATA_DIR: dataDir, SIBYL_DEVNET_PORT: '0', ...environment })
  const log = { info: () => {}, warn: () => {}, error: () => {} }
  try {
    return await openChains(settings, { clock: makeClockMemory(), log, step: () => {} }).then(
      async (chains) => {
        await chains.end()
        assert.fail('they were opened')
      },
      (error: Error) => error.message,
    )
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
}
