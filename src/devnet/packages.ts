/** Checks that the packages of the local chain are installed: a production install omits them. */

import { createRequire } from 'node:module'

const { resolve } = createRequire(import.meta.url)

/** Packages that only the local chain needs: its EVM, and UMA's builds of the oracle. */
const PACKAGES = ['hardhat', '@uma/contracts-node']

/** Throws an error with a message for the operator if a package is missing. */
export function requireDevnetPackages(): void {
  const missing = PACKAGES.filter((name) => !isInstalled(name))
  if (missing.length === 0) return
  throw new Error(
    `the local chain (SIBYL_DEVNET) needs ${missing.join(' and ')}, which npm ci --omit=dev leaves out; ` +
      'run npm ci, or name a chain in SIBYL_CHAINS and set SIBYL_DEVNET=false',
  )
}

function isInstalled(name: string): boolean {
  try {
    resolve(`${name}/package.json`)
    return true
  } catch {
    return false
  }
}
