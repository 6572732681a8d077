
# Usage: vivado -mode batch -source build.tcl -tclargs PART ?MHZ? ?BOARD_PART? ?ip|module?
#
# PART begins with xc7z (Zynq-7000), or xczu, xck (Zynq UltraScale+). MHZ is the clock of the
# accelerator, 100 unless given. BOARD_PART, "" for none, sets the processor up as the vendor of
# the board says. The last word chooses how the accelerator is placed: from component.xml (ip), or
# from the attributes of the Verilog alone (module).
#
# Exit status 1 where the clock is missed. The project, accelerator.bit and accelerator.xsa lie in
# the folder build/ of the working folder.

proc setting {number default} {
    global argv
    expr {[llength $argv] > $number ? [lindex $argv $number] : $default}
}

if {[llength $argv] < 1 || [llength $argv] > 4} {
    puts stderr "usage: build.tcl PART ?MHZ? ?BOARD_PART? ?ip|module?"
    exit 2
}
set part [setting 0 ""]
set mhz [setting 1 100]
set board [setting 2 ""]
set source [setting 3 ip]
set preset [expr {$board ne ""}]
set here [file dirname [file normalize [info script]]]

# What the two families name differently: the processor, its ports and clocks, and the address of
# the registers.
switch -glob -- $part {
    xc7z* {
        set ps_ip xilinx.com:ip:processing_system7
        set ps_rule xilinx.com:bd_rule:processing_system7
        set ps_rule_config [list make_external "FIXED_IO, DDR" apply_board_preset $preset \
            Master Disable Slave Disable]
        set ps_config [list \
            CONFIG.PCW_USE_M_AXI_GP0 1 \
            CONFIG.PCW_USE_S_AXI_HP0 1 \
            CONFIG.PCW_S_AXI_HP0_DATA_WIDTH 64 \
            CONFIG.PCW_USE_FABRIC_INTERRUPT 1 \
            CONFIG.PCW_IRQ_F2P_INTR 1 \
            CONFIG.PCW_FPGA0_PERIPHERAL_FREQMHZ $mhz]
        set clock ps/FCLK_CLK0
        set reset ps/FCLK_RESET0_N
        set control_port ps/M_AXI_GP0
        set memory_port ps/S_AXI_HP0
        set bus_clocks {ps/M_AXI_GP0_ACLK ps/S_AXI_HP0_ACLK}
        set interrupt ps/IRQ_F2P
        set registers 0x43C00000
    }
    xczu* - xck* {
        set ps_ip xilinx.com:ip:zynq_ultra_ps_e
        set ps_rule xilinx.com:bd_rule:zynq_ultra_ps_e
        set ps_rule_config [list apply_board_preset $preset]
        set ps_config [list \
            CONFIG.PSU__USE__M_AXI_GP0 1 \
            CONFIG.PSU__USE__M_AXI_GP1 0 \
            CONFIG.PSU__USE__M_AXI_GP2 0 \
            CONFIG.PSU__USE__S_AXI_GP2 1 \
            CONFIG.PSU__USE__IRQ0 1 \
            CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ $mhz]
        set clock ps/pl_clk0
        set reset ps/pl_resetn0
        set control_port ps/M_AXI_HPM0_FPD
        set memory_port ps/S_AXI_HP0_FPD
        set bus_clocks {ps/maxihpm0_fpd_aclk ps/saxihp0_fpd_aclk}
        set interrupt ps/pl_ps_irq0
        set registers 0xA0000000
    }
    default {
        puts stderr "PART must begin with xc7z, xczu or xck, not be $part"
        exit 2
    }
}
if {$source ni {ip module}} {
    puts stderr "the accelerator comes from ip or module, not from $source"
    exit 2
}

create_project accelerator build -part $part -force
if {$preset} {
    set_property board_part $board [current_project]
}
create_bd_design system

create_bd_cell -type ip -vlnv $ps_ip ps
apply_bd_automation -rule $ps_rule -config $ps_rule_config [get_bd_cells ps]
set_property -dict $ps_config [get_bd_cells ps]
if {$source eq "ip"} {
    set_property ip_repo_paths $here [current_project]
    update_ip_catalog
    create_bd_cell -type ip -vlnv $vlnv accelerator
} else {
    add_files $here/$verilog
    create_bd_cell -type module -reference $top accelerator
}
create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset reset
foreach name {control memory} {
    create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect $name
    set_property -dict [list CONFIG.NUM_SI 1 CONFIG.NUM_MI 1] [get_bd_cells $name]
}

# One clock and one reset for all.
foreach pin [concat $bus_clocks \
        {accelerator/ap_clk reset/slowest_sync_clk control/aclk memory/aclk}] {
    connect_bd_net [get_bd_pins $clock] [get_bd_pins $pin]
}
connect_bd_net [get_bd_pins $reset] [get_bd_pins reset/ext_reset_in]
foreach pin {accelerator/ap_rst_n control/aresetn memory/aresetn} {
    connect_bd_net [get_bd_pins reset/peripheral_aresetn] [get_bd_pins $pin]
}

# Processor -> registers, accelerator -> memory, accelerator -> interrupt of the processor.
foreach {from to} [list \
        $control_port control/S00_AXI \
        control/M00_AXI accelerator/s_axi_control \
        accelerator/m_axi_gmem memory/S00_AXI \
        memory/M00_AXI $memory_port] {
    connect_bd_intf_net [get_bd_intf_pins $from] [get_bd_intf_pins $to]
}
connect_bd_net [get_bd_pins accelerator/interrupt] [get_bd_pins $interrupt]

assign_bd_address -offset $registers -range 4K \
    [get_bd_addr_segs -of_objects [get_bd_intf_pins accelerator/s_axi_control]]
assign_bd_address
validate_bd_design
save_bd_design

add_files -norecurse [make_wrapper -files [get_files system.bd] -top]
set_property top system_wrapper [current_fileset]
launch_runs impl_1 -to_step write_bitstream -jobs 4
wait_on_run impl_1
if {[get_property PROGRESS [get_runs impl_1]] ne "100%"} {
    puts stderr "the build failed: [get_property STATUS [get_runs impl_1]]"
    exit 1
}
file copy -force [get_property DIRECTORY [get_runs impl_1]]/system_wrapper.bit \
    build/accelerator.bit
write_hw_platform -fixed -include_bit -force build/accelerator.xsa

set slack [get_property STATS.WNS [get_runs impl_1]]
puts "$vlnv on $part at $mhz MHz: worst slack $slack ns, registers at $registers"
if {$slack < 0} {
    puts stderr "the clock of $mhz MHz is missed by [expr {-$slack}] ns"
    exit 1
}
exit 0
