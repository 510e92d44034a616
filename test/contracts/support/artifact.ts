/** Reads compiled contracts: ours, and the original ones that the tests compare or stand on. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Abi, Hex } from 'viem'

const require = createRequire(import.meta.url)
const UMA = '@uma/contracts-node/dist/packages/core/artifacts/contracts'

export type Artifact = { readonly abi: Abi; readonly bytecode: Hex }

export function ours(name: string): Artifact & { readonly deployedBytecode: Hex } {
  return JSON.parse(
    readFileSync(new URL(`../../../contracts/artifacts/${name}.json`, import.meta.url), 'utf8'),
  ) as Artifact & { deployedBytecode: Hex }
}

/** UMA's own build of one of its contracts; `path` is where its source lives. */
export function uma(path: string): Artifact {
  const name = path.slice(path.lastIndexOf('/') + 1)
  return require(`${UMA}/${path}.sol/${name}.json`) as Artifact
}

export function gnosis(name: string): Artifact {
  return require(`@gnosis.pm/conditional-tokens-contracts/build/contracts/${name}.json`) as Artifact
}
