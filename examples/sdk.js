/**
 * The SDK for scripts in this repository. An older Node cannot load a `.ts` file, but it loads this one, which prints
 * the reason.
 */

import '../src/loader/hooks.js'

// Not static: these would be loaded before the line above has run.
export const { createClient } = await import('#client/client.ts')
export const { devnetKey } = await import('#devnet/accounts.ts')
