/**
 * The SDK for scripts in this repository; elsewhere, take the package `sibyl-client`. An older Node cannot load a `.ts`
 * file, but it loads this one, which prints the reason.
 */

import '../src/loader/hooks.js'

// Static imports would be loaded before the import above has run.
export const { createClient } = await import('#client/client.ts')
export const { registerApiKey } = await import('#client/api-keys.ts')
export const { withApiKey } = await import('#client/tokens.ts')
export const { devnetKey } = await import('#devnet/accounts.ts')
