/**
 * The SDK for scripts in this repository. Programs elsewhere import the package `sibyl-client`. An older Node cannot
 * load `.ts` files, but it loads this file, which prints the reason.
 */

import '../src/loader/hooks.js'

// Dynamic imports, because static imports would be loaded before `hooks.js` has run.
export const { createClient } = await import('#client/client.ts')
export const { registerApiKey } = await import('#client/api-keys.ts')
export const { withApiKey } = await import('#client/tokens.ts')
export const { devnetKey } = await import('#devnet/accounts.ts')
