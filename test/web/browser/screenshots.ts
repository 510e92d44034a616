/**
 * Entry of `npm run screenshots`. Prints the help, if requested, before it loads the code that takes the screenshots.
 */

import { endWithHelp } from '../../support/help.ts'

endWithHelp(`Makes the pictures of the trading page in docs/images anew.

  npm run screenshots
  npm run screenshots -- <folder>    every view at three widths in both colour schemes, to look at

It starts an exchange of its own, makes up some hours of trading, and needs Chromium.
`)

await import('./take-screenshots.ts')
