/**
 * Records to which chains the data in a data folder belongs. `chain.json` identifies each chain by the hash of its
 * first block. An exchange must never use data with a different chain. So if the chain is a different one, the data is
 * moved to a separate folder.
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
  /** Hash of the chain's first block. */
  readonly genesis: string
  readonly url: string
  readonly contracts: Readonly<Record<string, string>>
}

/** By chain id. */
export type ChainRecord = Readonly<Record<string, RecordedChain>>

const RECORD = 'chain.json'
export const CHAIN_LOG = 'chain.log'
const ASIDE = 'aside-'
/** Maximum number of kept folders with data of earlier local chains; older folders are deleted. */
const ASIDE_KEPT = 3

const ASIDE_NAME = /^aside-\d{4}-\d{2}-\d{2}T[\d-]+Z$/

/** Returns the recorded chains; undefined if the folder has never had a chain. */
export function readChainRecord(dataDir: string): ChainRecord | undefined {
  const file = join(dataDir, RECORD)
  if (!existsSync(file)) return undefined
  return JSON.parse(readFileSync(file, 'utf8')) as ChainRecord
}

/** Writes the record atomically: if the process is killed meanwhile, the previous record remains. */
export function writeChainRecord(dataDir: string, record: ChainRecord): void {
  mkdirSync(dataDir, { recursive: true })
  const file = join(dataDir, RECORD)
  writeFileSync(`${file}.new`, `${JSON.stringify(record, null, 2)}\n`)
  renameSync(`${file}.new`, file)
}

/** Returns whether the folder contains data of an exchange. */
export function hasData(dataDir: string): boolean {
  return existsSync(join(dataDir, 'log')) || existsSync(join(dataDir, 'sibyl.db'))
}

/**
 * Moves the data to a new folder within the data folder, and returns the new folder. Then deletes earlier folders of
 * this kind if their data belongs only to local chains, because those chains no longer exist. Keeps the newest
 * `ASIDE_KEPT` of these folders. Never deletes data of non-local chains, or data without a recorded chain.
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
