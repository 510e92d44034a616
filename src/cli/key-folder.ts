/**
 * API keys of this user, one file per key, readable only by the user. The exchange stores no private keys: these files
 * are the only copies.
 */

import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { StoredApiKey } from '#client/api-keys.ts'
import { CommandError } from '#devnet/command.ts'
import type { CommandIo } from './command.ts'

type KeptKey = StoredApiKey & {
  /** Address of the exchange that the key is for. */
  readonly url: string
  readonly name: string
  /** Unix seconds. */
  readonly createdAt: number
}

type KeyFolder = {
  readonly path: string
  list(): KeptKey[]
  /** Returns a wallet's newest unexpired key at an exchange. */
  find(url: string, address: string): KeptKey | undefined
  /** Stores the key; returns the path of the key's file. */
  keep(key: KeptKey): string
  forget(id: string): void
}

/**
 * Pattern of accepted ids. The exchange chooses the id, and the id becomes a file name, so path characters are
 * rejected.
 */
const ID = /^[0-9A-Za-z-]{1,64}$/
const OWNER_ONLY = 0o600
const OWNER_ONLY_FOLDER = 0o700

export function openKeyFolder({ env }: Pick<CommandIo, 'env'>): KeyFolder {
  const path = env.SIBYL_KEYS_DIR ?? join(homedir(), '.sibyl', 'keys')
  const fileOf = (id: string): string => {
    if (ID.test(id)) return join(path, `${id}.json`)
    throw new CommandError(`'${id.slice(0, 64)}' is not the id of an API key`)
  }

  function list(): KeptKey[] {
    let names: string[]
    try {
      names = readdirSync(path)
    } catch {
      return []
    }
    return names
      .filter((name) => name.endsWith('.json'))
      .flatMap((name) => readKept(join(path, name)) ?? [])
      .sort((a, b) => a.createdAt - b.createdAt)
  }

  return {
    path,
    list,
    find(url, address) {
      const nowSec = Date.now() / 1_000
      return list()
        .filter((key) => key.url === url && key.address.toLowerCase() === address.toLowerCase())
        .filter(({ expiresAt }) => expiresAt === undefined || expiresAt > nowSec)
        .at(-1)
    },
    keep(key) {
      const file = fileOf(key.id)
      try {
        mkdirSync(path, { recursive: true, mode: OWNER_ONLY_FOLDER })
        writeFileSync(file, `${JSON.stringify(key, null, 2)}\n`, { mode: OWNER_ONLY, flag: 'wx' })
      } catch {
        throw new CommandError(
          `the API key cannot be stored: the folder ${path} (SIBYL_KEYS_DIR) cannot be written`,
        )
      }
      return file
    },
    forget: (id) => rmSync(fileOf(id), { force: true }),
  }
}

/** Reads a stored key; returns undefined for files of other programs. */
function readKept(file: string): KeptKey | undefined {
  try {
    const read = JSON.parse(readFileSync(file, 'utf8')) as Partial<KeptKey>
    const texts = [read.id, read.privateKey, read.address, read.url]
    return texts.every((part) => typeof part === 'string')
      ? { name: '', createdAt: 0, ...(read as StoredApiKey & { url: string }) }
      : undefined
  } catch {
    return undefined
  }
}
