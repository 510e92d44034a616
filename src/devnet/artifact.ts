/** Reads compiled contracts: Sibyl's contracts, and UMA's own builds of its oracle. */

import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Abi, Hex } from 'viem'

const require = createRequire(import.meta.url)
const UMA = '@uma/contracts-node/dist/packages/core/artifacts/contracts'

export type Artifact = { readonly abi: Abi; readonly bytecode: Hex }

/** Address and ABI of a deployed contract. */
export type Contract<A extends Abi = Abi> = { readonly address: Hex; readonly abi: A }

export function ours(name: string): Artifact & { readonly deployedBytecode: Hex } {
  const file = new URL(`../../contracts/artifacts/${name}.json`, import.meta.url)
  return JSON.parse(readFileSync(file, 'utf8')) as Artifact & { deployedBytecode: Hex }
}

/** Returns UMA's own build of a UMA contract; `path` is the path of the contract's source. */
export function uma(path: string): Artifact {
  const name = path.slice(path.lastIndexOf('/') + 1)
  return require(`${UMA}/${path}.sol/${name}.json`) as Artifact
}
