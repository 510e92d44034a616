// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// TEST ONLY. Collateral that is whatever its caller says it has: anybody can split and merge any
/// amount of it, which is how the differential test reaches the ends of the number range.
contract FreeCollateral {
    function transferFrom(address, address, uint256) external pure returns (bool) {
        return true;
    }

    function transfer(address, uint256) external pure returns (bool) {
        return true;
    }
}
