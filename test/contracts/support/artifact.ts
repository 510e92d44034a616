/** Loads the compiled original contract, with which the tests compare ours. */
import { createRequire } from 'node:module'
import type { Artifact } from '#devnet/artifact.ts'

const require = createRequire(import.meta.url)

export function gnosis(name: string): Artifact {
  return require(`@gnosis.pm/conditional-tokens-contracts/build/contracts/${name}.json`) as Artifact
}
