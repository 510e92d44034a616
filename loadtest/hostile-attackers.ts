/** The attackers of `hostile-soak.ts`, in a process of their own: every attack at once from each address. */

import { once } from 'node:events'
import { largeFiles, longContentTypes, marketLists, misfitBodies } from './hostile-http.ts'
import { conflatedSnapshots, tickerTopics } from './hostile-stream.ts'

const ATTACKS = {
  ...{ longContentTypes, misfitBodies, marketLists, largeFiles },
  ...{ tickerTopics, conflatedSnapshots },
}

export type HostileWork = {
  readonly url: string
  readonly addresses: readonly string[]
  readonly seconds: number
  /** All attacks by default. */
  readonly only?: string | undefined
}

/** By attack: the counts of each address. */
export type HostileResult = Readonly<Record<string, readonly object[]>>

const [work] = (await once(process, 'message')) as [HostileWork]
const { url, addresses, seconds, only } = work
const chosen = Object.entries(ATTACKS).filter(([name]) => only === undefined || name === only)
const told = await Promise.all(
  chosen.map(async ([name, attack]) => [
    name,
    await Promise.all(addresses.map((address) => attack(url, address, seconds))),
  ]),
)
process.send?.(Object.fromEntries(told) as HostileResult, () => process.exit(0))
