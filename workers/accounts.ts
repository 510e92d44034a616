/** Runs an accounts thread. */

import { runThreads } from '#runtime/thread.ts'
import { accountsThread } from '#threads/accounts.ts'

runThreads({ accounts: accountsThread })
