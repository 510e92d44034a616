/**
 * Which chains the data folder belongs to: `chain.json` in it names them by their first blocks. Data
 * of one chain must never meet another, so what belongs elsewhere is moved into a folder aside.
 */

import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'

export type RecordedChain = {
  /** The hash of its first block. */
  readonly genesis: string
  readonly url: string
  readonly contracts: Readonly<Record<string, string>>
}

/** By chain id. */
export type ChainRecord = Readonly<Record<string, RecordedChain>>

const RECORD = 'chain.json'
export const CHAIN_LOG = 'chain.log'
const ASIDE = 'aside-'

/** Nothing when the folder has never had a chain. */
export function readChainRecord(dataDir: string): ChainRecord | undefined {
  const file = join(dataDir, RECORD)
  if (!existsSync(file)) return undefined
  return JSON.parse(readFileSync(file, 'utf8')) as ChainRecord
}

/** Whole or not at all: a kill in the middle leaves the one before. */
export function writeChainRecord(dataDir: string, record: ChainRecord): void {
  mkdirSync(dataDir, { recursive: true })
  const file = join(dataDir, RECORD)
  writeFileSync(`${file}.new`, `${JSON.stringify(record, null, 2)}\n`)
  renameSync(`${file}.new`, file)
}

/** Whether an exchange has written here. */
export function hasData(dataDir: string): boolean {
  return existsSync(join(dataDir, 'log')) || existsSync(join(dataDir, 'sibyl.db'))
}

/** Moves everything into a folder of its own within the data folder, and answers which. */
export function moveAside(dataDir: string, now: Date): string {
  const folder = join(dataDir, `${ASIDE}${now.toISOString().replace(/[:.]/g, '-')}`)
  mkdirSync(folder, { recursive: true })
  for (const name of readdirSync(dataDir)) {
    if (!name.startsWith(ASIDE)) renameSync(join(dataDir, name), join(folder, name))
  }
  return folder
}
