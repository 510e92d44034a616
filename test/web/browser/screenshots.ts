/** `npm run screenshots`: tells of itself before it loads what takes the pictures. */

import { endWithHelp } from '../../support/help.ts'

endWithHelp(`Makes the pictures of the trading page in docs/images anew; it takes no options.

  npm run screenshots

It starts an exchange of its own, makes up some hours of trading, and needs Chromium.
`)

await import('./take-screenshots.ts')
