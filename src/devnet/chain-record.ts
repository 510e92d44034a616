/**
 * Chains of a data folder: its `chain.json` names them by their first blocks. Data of one chain must never be used with
 * another, so data of other chains is moved to a folder aside.
 */

import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { DEVNET_CHAIN_ID } from './accounts.ts'

export type RecordedChain = {
  /** Hash of its first block. */
  readonly genesis: string
  readonly url: string
  readonly contracts: Readonly<Record<string, string>>
}

/** By chain id. */
export type ChainRecord = Readonly<Record<string, RecordedChain>>

const RECORD = 'chain.json'
export const CHAIN_LOG = 'chain.log'
const ASIDE = 'aside-'
/** Number of kept folders with data of earlier local chains; older ones are deleted. */
const ASIDE_KEPT = 3

const ASIDE_NAME = /^aside-\d{4}-\d{2}-\d{2}T[\d-]+Z$/

/** Returns the recorded chains; undefined if the folder has never had a chain. */
export function readChainRecord(dataDir: string): ChainRecord | undefined {
  const file = join(dataDir, RECORD)
  if (!existsSync(file)) return undefined
  return JSON.parse(readFileSync(file, 'utf8')) as ChainRecord
}

/** The file is written atomically: a kill in the middle leaves the previous record. */
export function writeChainRecord(dataDir: string, record: ChainRecord): void {
  mkdirSync(dataDir, { recursive: true })
  const file = join(dataDir, RECORD)
  writeFileSync(`${file}.new`, `${JSON.stringify(record, null, 2)}\n`)
  renameSync(`${file}.new`, file)
}

/** Returns whether an exchange has written here. */
export function hasData(dataDir: string): boolean {
  return existsSync(join(dataDir, 'log')) || existsSync(join(dataDir, 'sibyl.db'))
}

/**
 * Moves everything to a new folder within the data folder, and returns it. Of the folders with data of local chains,
 * which exist no longer, only the newest are kept. Data of any other chain, or of none, is never deleted.
 */
export function moveAside(dataDir: string, now: Date): string {
  const folder = join(dataDir, `${ASIDE}${now.toISOString().replace(/[:.]/g, '-')}`)
  mkdirSync(folder, { recursive: true })
  for (const name of readdirSync(dataDir)) {
    if (!name.startsWith(ASIDE)) renameSync(join(dataDir, name), join(folder, name))
  }
  const old = readdirSync(dataDir)
    .filter((name) => ASIDE_NAME.test(name) && isLocal(join(dataDir, name)))
    .sort()
    .slice(0, -ASIDE_KEPT)
  for (const name of old) rmSync(join(dataDir, name), { recursive: true, force: true })
  return folder
}

function isLocal(folder: string): boolean {
  const record = readChainRecord(folder)
  return record !== undefined && Object.keys(record).every((id) => id === String(DEVNET_CHAIN_ID))
}
